package session

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/lmserve/lmserve/internal/stream"
)

// differences lists what a request asks for, and a session has not. What the request leaves out
// makes no difference, nor do labels and TTL, which are no part of how the session scores.
func (h *head) differences(r CreateRequest, asked stream.Settings) (all []FieldError) {
	note := func(field string, have, want any) {
		if !reflect.DeepEqual(have, want) {
			all = append(all, FieldError{Field: field, Found: inWords(have), Want: inWords(want)})
		}
	}
	have, want := reported(h.Settings), reported(asked)
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		note("settings."+name, have[name], want[name])
	}
	if r.Seed != nil {
		note("seed", h.Settings.Seed, *r.Seed)
	}
	note("history", h.History, cmp.Or(r.History, h.History))
	return all
}

// inWords is a setting as an error tells it.
func inWords(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}
