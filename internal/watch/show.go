package watch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Style says how lines are shown.
type Style struct {
	Color bool // mark by colour; else by carets in a row below
	Width int  // columns of a row; 0: as many as it takes
}

const (
	markOn  = "\x1b[1;31m" // bold and red
	markOff = "\x1b[0m"
	cut     = "…"
	mark    = '^'
	// rowsMax is how many rows of the terminal a line may take that is marked by colour.
	rowsMax = 4
	// before is the share of a window that shows what stands in front of the span: a third.
	before = 3
)

// Show gives a line of text with a span of its bytes marked, behind a prefix of so many columns; with
// a newline at its end. Where the text does not fit, the part around the span's beginning is shown,
// with an ellipsis where text was left out. What would control the terminal is shown as escapes.
//
// The span is that of the contract's LineSpan. It is widened to whole words, since a model is
// surprised by the first letters of a word and knows the rest: letters and digits that touch the
// span at either side belong to it.
func (s Style) Show(prefix string, text []byte, from, to int64) string {
	cells, marked := layout(text, from, to)
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
			sign = string(mark)
		}
		below.WriteString(strings.Repeat(sign, c.width))
	}
	if s.Color && last {
		out.WriteString(markOff)
	}
	out.WriteByte('\n')
	if marked && !s.Color {
		out.WriteString(strings.TrimRight(below.String(), " ") + "\n")
	}
	return out.String()
}

// cell is a character as it is shown.
type cell struct {
	text   string
	width  int // in columns
	marked bool
}

// layout makes cells of a text.
func layout(text []byte, from, to int64) (cells []cell, marked bool) {
	begin, end := widen(text, int(from), int(to))
	column := 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		c := cell{text: shown(r, text[at:at+n], column), marked: at < end && at+n > begin}
		c.width = runewidth.StringWidth(c.text)
		cells = append(cells, c)
		marked = marked || c.marked
		column += c.width
		at += n
	}
	return cells, marked
}

const tabWidth = 8

// shown is a character as a terminal can show it.
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

// widen widens a span to whole words, within the text.
func widen(text []byte, from, to int) (int, int) {
	from, to = min(max(from, 0), len(text)), min(max(to, 0), len(text))
	if from >= to {
		return from, from
	}
	for from < to && text[from] == ' ' { // spaces at the ends say nothing
		from++
	}
	for to > from && text[to-1] == ' ' {
		to--
	}
	for from < to && from > 0 && inWord(text[from]) && inWord(text[from-1]) {
		from--
	}
	for from < to && to < len(text) && inWord(text[to-1]) && inWord(text[to]) {
		to++
	}
	return from, to
}

// inWord reports whether a byte is of a word: a letter or digit, or part of a character that is not
// ASCII.
func inWord(b byte) bool {
	return b >= utf8.RuneSelf || unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b)) || b == '_'
}

// window is the part of the cells that fits into so many columns, with the beginning of what is
// marked in it.
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
	for rest := total - columns(cells[:begin]); begin > 0 && rest < width-dots.width; begin-- {
		rest += cells[begin-1].width
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
