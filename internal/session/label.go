package session

import (
	"maps"
	"time"
)

// Label is a label that a session has, or one that it is looked for by.
type Label struct {
	Name  string
	Value *string // nil: any
}

// hasLabels says whether a session has all of the labels.
func (s *session) hasLabels(labels []Label) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hasLabels(s.Labels, labels)
}

func hasLabels(has map[string]string, labels []Label) bool {
	for _, l := range labels {
		value, ok := has[l.Name]
		if !ok || l.Value != nil && *l.Value != value {
			return false
		}
	}
	return true
}

// PatchRequest changes what a session keeps beside its text. What is left out stays as it is.
type PatchRequest struct {
	Name *string // as in a ForkRequest; to "" it takes the name away
	// Unlabel takes all labels away before those of Labels are set.
	Unlabel bool
	// Labels are set to these values; one without a value is taken away.
	Labels map[string]*string
	TTL    *time.Duration // as in a CreateRequest
	// Detach makes a session of its own of a shadow, which stays as it is from then on.
	Detach bool
}

// patched is the head of a session after a change. The labels of the head given are not touched.
func (r *PatchRequest) patched(h head) head {
	labels := maps.Clone(h.Labels)
	if r.Unlabel {
		labels = nil
	}
	for name, value := range r.Labels {
		if value == nil {
			delete(labels, name)
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = *value
	}
	h.Labels = labels
	if r.Name != nil {
		h.Name = *r.Name
	}
	if r.Detach {
		h.ShadowOf = ""
	}
	if r.TTL != nil {
		h.TTL = *r.TTL
	}
	return h
}
