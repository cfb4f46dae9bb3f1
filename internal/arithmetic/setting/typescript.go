package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// TypeScript returns the settings for the web page as TypeScript: one object literal for each
// setting, without indentation. server/page/src/api/settings.ts documents the fields of the
// literals.
func (t Table[T]) TypeScript() string {
	var b strings.Builder
	for _, r := range t {
		help := strings.ReplaceAll(r.Help, "`", "") // the page shows no back quotes
		fmt.Fprintf(&b, "{\n  name: %q,\n  kind: %q,\n  help: %q,\n", r.Name, r.formKind(), help)
		if len(r.Methods) > 0 {
			fmt.Fprintf(&b, "  methods: %s,\n", quoted(r.Methods))
		}
		switch r.Field(new(T)).(type) {
		case *string:
			fmt.Fprintf(&b, "  words: %s,\n", quoted(r.Words))
		case *bool:
		default:
			fmt.Fprintf(&b, "  min: %s,\n  max: %s,\n", decimal(r.Min), decimal(r.Max))
		}
		b.WriteString("},\n")
	}
	return b.String()
}

func (r Row[T]) formKind() string {
	switch r.Field(new(T)).(type) {
	case *string:
		return "word"
	case *bool:
		return "switch"
	case *int:
		return "whole"
	case *[]float32:
		return "numbers"
	}
	return "number"
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = strconv.Quote(word)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
