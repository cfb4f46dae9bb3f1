package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/serving/session"
)

func hasLabels(i session.Info, labels []session.Label) bool {
	return !slices.ContainsFunc(labels, func(l session.Label) bool {
		value, ok := i.Labels[l.Name]
		return !ok || l.Value != nil && *l.Value != value
	})
}

// Put finds a session by its name, or creates it. For an existing session Put compares only the
// setting "chunk".
func (f *fakeSessions) Put(
	ctx context.Context, who session.Caller, name string, r session.CreateRequest,
) (info session.Info, made bool, err error) {
	if s, err := f.find(who, name); err == nil {
		if have, want := s.info.Settings["chunk"], r.Settings["chunk"]; want != nil &&
			want != have {
			differ := session.FieldError{
				Field: "settings.chunk", Found: fmt.Sprint(have), Want: fmt.Sprint(want),
			}
			return session.Info{}, false, &session.DifferError{ID: s.info.ID,
				Fields: []session.FieldError{differ}}
		}
		return told(who, s.info), false, nil
	}
	if info, err = f.Create(ctx, who, r); err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sessions[info.ID].info.Name, info.Name = name, name
	}
	return info, err == nil, err
}

func (f *fakeSessions) Patch(
	_ context.Context, who session.Caller, id string, r session.PatchRequest,
) (session.Info, error) {
	s, err := f.find(who, id)
	if err != nil {
		return session.Info{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patched = r
	if r.TTL != nil {
		s.info.TTL = *r.TTL
	}
	return told(who, s.info), nil
}

// free returns an error if a session already has the name.
func (f *fakeSessions) free(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if name != "" && s.info.Name == name {
			return &session.NameTakenError{Name: name}
		}
	}
	return nil
}
