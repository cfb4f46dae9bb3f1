package setting

import (
	"fmt"
	"strings"
)

// Markdown returns the settings as a Markdown table for the documentation.
func (t Table[T]) Markdown() string {
	var b strings.Builder
	b.WriteString("| name | flag | range | default | meaning |\n|---|---|---|---|---|\n")
	for _, r := range t {
		flag := "none"
		if !r.NoFlag {
			flag = "`--" + r.FlagName() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			r.Name, flag, r.rangeWithUnit(), r.Default, r.describe())
	}
	return b.String()
}

func (r Row[T]) rangeWithUnit() string {
	text := r.wanted()
	if r.MaxItems > 0 {
		text = fmt.Sprintf("1 to %d numbers, each %s", r.MaxItems, text)
	}
	if r.Unit != "" {
		text += " " + r.Unit
	}
	return text
}
