package session

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// differences lists what a request asks for, and a session has not. What the request leaves out
// makes no difference, nor do labels and TTL, which are no part of how the session scores.
func (s *session) differences(r CreateRequest, asked sessionPlan) (all []FieldError) {
	note := func(field string, have, want any) {
		if !reflect.DeepEqual(have, want) {
			all = append(all, FieldError{Field: field, Found: inWords(have), Want: inWords(want)})
		}
	}
	if r.Model != "" && asked.model != s.model {
		note("model", s.Model.id(), asked.model.ID())
		return all // the settings of two models do not compare
	}
	have, want := reported(s.Settings), reported(asked.set)
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		note("settings."+name, have[name], want[name])
	}
	if r.Seed != nil {
		note("seed", s.Settings.Seed, *r.Seed)
	}
	if asked.of != nil {
		note("shadow_of", s.shadowOf(), asked.of.ID)
	}
	note("history", s.History, cmp.Or(r.History, s.History))
	return all
}

// inWords is a setting as an error tells it.
func inWords(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}
