package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// recipeSection is a part of the run's recipe, flattened.
type recipeSection struct {
	Title string
	Rows  []recipeRow
}

type recipeRow struct{ Field, Value string }

// recipe is the run's recipe as tables: its plain fields, then a table for each group of them.
func recipe(fields map[string]any) []recipeSection {
	sections := []recipeSection{{Title: "run"}}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		group, nested := fields[key].(map[string]any)
		if !nested {
			sections[0].Rows = append(sections[0].Rows, recipeRow{key, showPlain(fields[key])})
			continue
		}
		s := recipeSection{Title: key}
		s.add("", group)
		sections = append(sections, s)
	}
	return sections
}

func (s *recipeSection) add(prefix string, fields map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if group, nested := fields[key].(map[string]any); nested {
			s.add(prefix+key+".", group)
		} else {
			s.Rows = append(s.Rows, recipeRow{prefix + key, showPlain(fields[key])})
		}
	}
}

// showPlain is a plain value or a list of some as a person writes it.
func showPlain(v any) string {
	if list, ok := v.([]any); ok {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = showPlain(e)
		}
		return strings.Join(words, ", ")
	}
	if v == nil {
		return "not set"
	}
	return fmt.Sprint(v)
}
