package watch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/lmserve/lmserve/api/client"
)

// Style says how lines are shown in a terminal.
type Style struct {
	Color bool // true: marked parts are red; false: carets below mark them
	Width int  // columns of a row; 0 means unlimited
}

const (
	markOn  = "\x1b[1;31m"
	markOff = "\x1b[0m"
	faintOn = "\x1b[2m"
	cut     = "…"
	caret   = "^"
	// rowsMax is the largest number of terminal rows for a line if Color is set.
	rowsMax = 4
	// reasonGap is the number of columns between the carets and the reason. The reason is left out
	// if fewer than reasonLeast columns remain for it.
	reasonGap, reasonLeast = 2, 12
	// before determines where the mark begins in a window: after a third of the window's width.
	before = 3
)

// Show formats a text with marked parts after a prefix, and ends with a newline. It shows the
// reason below the text, unless the reason is empty. Of a text that does not fit, Show keeps the
// part around the first mark. An ellipsis marks omitted text. Show writes terminal control
// characters as escapes.
func (s Style) Show(prefix string, text []byte, marks []client.LineSpan, reason string) string {
	cells := layout(text, marks)
	indent := runewidth.StringWidth(prefix)
	width := s.Width - indent
	if s.Color {
		width = s.Width*rowsMax - indent
	}
	if s.Width > 0 {
		cells = window(cells, max(width, 2*runewidth.StringWidth(cut)+1))
	}
	var out, below strings.Builder
	out.WriteString(prefix)
	below.WriteString(strings.Repeat(" ", indent))
	last := false
	for _, c := range cells {
		if s.Color && c.marked != last {
			out.WriteString(map[bool]string{true: markOn, false: markOff}[c.marked])
		}
		last = c.marked
		out.WriteString(c.text)
		sign := " "
		if c.marked {
			sign = caret
		}
		below.WriteString(strings.Repeat(sign, c.width))
	}
	if s.Color && last {
		out.WriteString(markOff)
	}
	out.WriteByte('\n')
	row := ""
	if len(marks) > 0 && !s.Color {
		row = strings.TrimRight(below.String(), " ")
	}
	if row = s.reasoned(row, indent, reason); row != "" {
		out.WriteString(row + "\n")
	}
	return out.String()
}

func (s Style) reasoned(row string, indent int, reason string) string {
	if reason == "" {
		return row
	}
	if row == "" {
		row = strings.Repeat(" ", max(0, indent-reasonGap))
	}
	if s.Width > 0 {
		room := s.Width - runewidth.StringWidth(row) - reasonGap
		if room < reasonLeast {
			return strings.TrimRight(row, " ")
		}
		reason = runewidth.Truncate(reason, room, cut)
	}
	if s.Color {
		reason = faintOn + reason + markOff
	}
	return row + strings.Repeat(" ", reasonGap) + reason
}

type cell struct {
	text   string
	width  int
	marked bool
}

// layout returns a cell for each character of a text. The marks must be sorted.
func layout(text []byte, marks []client.LineSpan) (cells []cell) {
	column := 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		for len(marks) > 0 && marks[0].To <= int64(at) {
			marks = marks[1:]
		}
		c := cell{text: shown(r, text[at:at+n], column)}
		c.marked = len(marks) > 0 && marks[0].From < int64(at+n)
		c.width = runewidth.StringWidth(c.text)
		cells = append(cells, c)
		column += c.width
		at += n
	}
	return cells
}

const tabWidth = 8

func shown(r rune, bytes []byte, column int) string {
	const digits = "0123456789abcdef"
	switch {
	case r == '\t':
		return strings.Repeat(" ", tabWidth-column%tabWidth)
	case r == utf8.RuneError && len(bytes) == 1, unicode.IsControl(r) && len(bytes) == 1:
		return `\x` + string(digits[bytes[0]>>4]) + string(digits[bytes[0]&15])
	case !unicode.IsPrint(r):
		return string(utf8.RuneError)
	}
	return string(r)
}

// window returns the cells around the beginning of the first mark that fit into width columns. An
// ellipsis marks omitted cells.
func window(cells []cell, width int) []cell {
	total, first := 0, -1
	for i, c := range cells {
		if total += c.width; c.marked && first < 0 {
			first = i
		}
	}
	if total <= width {
		return cells
	}
	dots := cell{text: cut, width: runewidth.StringWidth(cut)}
	begin := max(first, 0)
	for space := width / before; begin > 0 && space >= cells[begin-1].width; begin-- {
		space -= cells[begin-1].width
	}
	rest := total - columns(cells[:begin])
	for begin > 0 && rest+cells[begin-1].width <= width-dots.width {
		begin--
		rest += cells[begin].width
	}
	var part []cell
	if begin > 0 {
		part, width = append(part, dots), width-dots.width
	}
	end := begin
	for room := width - dots.width; end < len(cells) && cells[end].width <= room; end++ {
		room -= cells[end].width
	}
	if end < len(cells) && columns(cells[end:]) <= width-columns(cells[begin:end]) {
		end = len(cells)
	}
	if part = append(part, cells[begin:end]...); end < len(cells) {
		part = append(part, dots)
	}
	return part
}

func columns(cells []cell) (n int) {
	for _, c := range cells {
		n += c.width
	}
	return n
}
