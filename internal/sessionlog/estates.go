package sessionlog

import (
	"slices"
)

// estates says who is charged for what deleted sessions have left to forks. One fork is the heir:
// of those that reach furthest into the log, the one whose id is the first, which is the oldest
// where ids are in the order of time. When the heir goes there is another.
type estates struct {
	heirs map[string]string   // by the id of the deleted session
	left  map[string][]string // by the id of the heir
}

func newEstates() estates {
	return estates{heirs: map[string]string{}, left: map[string][]string{}}
}

// give makes a fork the heir of a deleted session; "": nothing is left of it, or it lives.
func (e *estates) give(id, heir string) {
	if old := e.heirs[id]; old != "" {
		rest := slices.DeleteFunc(e.left[old], func(left string) bool { return left == id })
		if e.left[old] = rest; len(rest) == 0 {
			delete(e.left, old)
		}
	}
	delete(e.heirs, id)
	if heir != "" {
		e.heirs[id] = heir
		e.left[heir] = append(e.left[heir], id)
	}
}
