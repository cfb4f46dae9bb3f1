package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

// lineReport prints lines or incidents. Several streams may use it concurrently.
type lineReport struct {
	out       io.Writer
	style     watch.Style
	sources   bool // print each line's source
	asJSON    bool
	measures  bool            // print each line's cost
	threshold float64         // largest p of a printed line; 0 prints all lines
	top       *watch.Top      // nil if lines are printed as they arrive
	incidents *incidentReport // nil if lines are printed instead of incidents

	// silent is called for a source that is unusually silent; it may be nil. since is the time of
	// the source's last line. A silence that lasts longer than after is unusual.
	silent func(source string, since time.Time, after time.Duration)

	note func(text string) // prints that a stream has too few lines yet; may be nil

	mu      sync.Mutex
	total   lineTotal
	warming map[string]bool // sources for which note was called
}

type lineTotal struct {
	lines, shown       int64
	bytes, chars       int64
	bits, baselineBits float64
	baseline           bool
	// words is true for a model of words; bits per character are then omitted.
	words bool
	// ends has the end of the last line of each source. It is nil unless lines may be repeated or
	// skipped.
	ends map[string]lineEnd
}

// lineEnd is the number of a line and the offset of its end.
type lineEnd struct{ number, offset int64 }

// newLineReport makes a report that writes to out. The colors and the width of the output depend on
// the writer `to`, for example a terminal.
func newLineReport(out, to io.Writer, sources bool) *lineReport {
	return &lineReport{out: out, style: styleOf(to), sources: sources}
}

// styleOf returns the output style for a writer. A terminal gets colors, unless NO_COLOR is set
// (https://no-color.org).
func styleOf(w io.Writer) (s watch.Style) {
	if !isTerminal(w) {
		return s
	}
	s.Color = os.Getenv("NO_COLOR") == ""
	s.Width, _, _ = term.GetSize(int(w.(*os.File).Fd())) // 0 if unknown
	return s
}

// line counts a line, and prints it or its incidents if they are strange enough.
func (r *lineReport) line(f watch.Found) (shown bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.incidents != nil {
		r.heardLocked(f.Source)
	}
	r.total.add(f.Source, &f.Line)
	r.warmLocked(f)
	if r.top != nil {
		r.top.Add(f)
		return false, nil
	}
	if r.incidents != nil {
		return r.incidentsLocked(f)
	}
	if r.threshold > 0 && !watch.StandsOut(&f.Line, r.threshold) {
		return false, nil
	}
	r.total.shown++
	return true, r.printLocked(f)
}

// warmLocked prints a message, once per stream, if the stream has too few lines to rate their
// strangeness.
func (r *lineReport) warmLocked(f watch.Found) {
	if f.Line.Warm || r.note == nil || r.warming[f.Source] {
		return
	}
	if r.warming == nil {
		r.warming = map[string]bool{}
	}
	r.warming[f.Source] = true
	r.note(fmt.Sprintf("%s: warming up: none of a session's first %d lines is printed",
		f.Source, lines.WarmUp))
}

// add adds a line to the total. If ends is set, add also counts earlier lines of the source that
// were not reported. It then ignores a line that is reported again.
func (t *lineTotal) add(source string, l *client.LineEvent) {
	if t.ends == nil {
		t.addLine(l)
		return
	}
	end := lineEnd{l.Number + max(1, orZero(l.Lines)) - 1, l.Offset + l.Bytes}
	last, ok := t.ends[source]
	if !ok {
		last = lineEnd{l.Number - 1, l.Offset}
	}
	t.ends[source] = end
	t.lines += max(0, end.number-last.number)
	t.bytes += max(0, end.offset-last.offset)
}

func (t *lineTotal) addLine(l *client.LineEvent) {
	t.lines += max(1, orZero(l.Lines))
	t.words = t.words || l.BPC == nil && l.Chars > 0
	t.bytes += l.Bytes
	t.chars += l.Chars
	t.bits += l.Bits
	if l.BaselineBits != nil {
		t.baseline = true
		t.baselineBits += *l.BaselineBits
	}
}

// end prints the strangest lines if --top was given.
func (r *lineReport) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.incidents != nil {
		return r.openLocked()
	}
	if r.top == nil {
		return nil
	}
	for _, f := range r.top.Lines() {
		r.total.shown++
		if err := r.printLocked(f); err != nil {
			return err
		}
	}
	return nil
}

// source returns the first output column, with the name of the source. It is empty if there is only
// one source.
func (r *lineReport) source(name string) string {
	if !r.sources {
		return ""
	}
	return name + "  "
}

// markedMost limits which lines get marks when all lines are printed: a line with a larger p has no
// marks.
const markedMost = 1. / 100

func (r *lineReport) printLocked(f watch.Found) error { return r.labeledLocked(f, "") }

// labeledLocked prints a line in one write. If the line has a reason for its strangeness, the label
// precedes the reason.
func (r *lineReport) labeledLocked(f watch.Found, label string) error {
	if r.asJSON {
		return r.printJSON(f)
	}
	prefix := r.source(f.Source)
	if r.measures {
		prefix += fmt.Sprintf("%7d %8.1f ", f.Line.Number, f.Line.Bits)
		if f.Line.BPC != nil {
			prefix += fmt.Sprintf("%6.3f ", *f.Line.BPC)
		}
		prefix += " "
	}
	rank := "-"
	if f.Line.Warm {
		rank = fmt.Sprintf("1/%d", f.Line.Rank)
	}
	prefix += fmt.Sprintf("%-8s  ", rank)
	var marks []client.LineSpan
	reason := ""
	chosen := r.threshold > 0 || r.top != nil // only strange lines are printed
	if f.Line.Warm && (chosen || f.Line.P <= markedMost) {
		if span, ok := watch.Mark(&f.Line); ok {
			marks, reason = []client.LineSpan{span}, watch.Reason(f.Line.Why)
			if label != "" {
				reason = label + " " + reason
			}
		}
	}
	_, err := io.WriteString(r.out, r.shown(prefix, &f.Line, marks, reason))
	return err
}

// shown returns a line in its printed form. A record has several lines: shown returns the first
// one, the one with marks, and the number of all others.
func (r *lineReport) shown(
	prefix string, l *client.LineEvent, marks []client.LineSpan, reason string,
) string {
	text := l.TextBytes()
	if orZero(l.Lines) <= 1 {
		return r.style.Show(prefix, withoutCR(text), marks, reason)
	}
	begin, indent := 0, strings.Repeat(" ", utf8.RuneCountInString(prefix))
	if len(marks) > 0 {
		begin = bytes.LastIndexByte(text[:marks[0].From], '\n') + 1
	}
	first, _, _ := bytes.Cut(text, []byte{'\n'})
	marked, _, _ := bytes.Cut(text[begin:], []byte{'\n'})
	out, left := "", *l.Lines-1
	if begin > 0 {
		out, prefix = r.style.Show(prefix, withoutCR(first), nil, ""), indent
		marks = []client.LineSpan{{From: marks[0].From - int64(begin),
			To: marks[0].To - int64(begin)}}
		left--
	}
	out += r.style.Show(prefix, withoutCR(marked), marks, reason)
	if left > 0 {
		out += indent + "… " + setting.Count(int(left), "line") + " more\n"
	}
	return out
}

// withoutCR removes the carriage return of a CRLF.
func withoutCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\r'}) }

// lineObject is the JSON form of a line. It is the server's event with two changes: it adds the
// source, and has marks in place of the cost of each byte.
type lineObject struct {
	Source string `json:"source,omitempty"`
	client.LineEvent
	Marks []client.LineSpan `json:"marks"`
}

func (r *lineReport) printJSON(f watch.Found) error {
	o := lineObject{LineEvent: f.Line, Marks: []client.LineSpan{}}
	if span, ok := watch.Mark(&f.Line); ok {
		o.Marks = append(o.Marks, span)
	}
	o.TokenBits = nil
	if r.sources {
		o.Source = f.Source
	}
	return printObject(r.out, o)
}

func (t *lineTotal) object(partial bool) chunkObject {
	o := chunkObject{
		Total: true, Partial: partial, Bytes: t.bytes, Bits: t.bits, Lines: &t.lines,
		Shown: &t.shown,
	}
	if t.words {
		return o
	}
	o.BPC = new(perUnit(t.bits, t.chars))
	if t.baseline {
		o.compared(t.baselineBits, t.chars)
	}
	return o
}

// summary describes how many lines were read and printed.
func (r *lineReport) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.String()
}

func (t *lineTotal) String() string {
	parts := []string{
		setting.Count(int(t.lines), "line"), fmt.Sprintf("%d printed", t.shown),
		setting.Count(int(t.bytes), "byte"),
	}
	if t.ends != nil {
		return strings.Join(parts, ", ")
	}
	rate := func(bits float64) string { return fmt.Sprintf("%.3f", perUnit(bits, t.chars)) }
	unit := "bits per character"
	if t.words {
		rate = func(bits float64) string { return fmt.Sprintf("%.1f", bits) }
		unit = "bits"
	}
	text := strings.Join(append(parts, rate(t.bits)+" "+unit), ", ")
	return text + orWord("", t.baseline, fmt.Sprintf(" (static %s)", rate(t.baselineBits)))
}

const topMax = 100_000

// recordFlags selects whether lines are combined into records, and how a record begins.
type recordFlags struct {
	on    bool
	start string
}

func (f *recordFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "records", false,
		"output of records instead of lines; a record is a group of related lines,\n"+
			"such as a stack trace or pretty-printed JSON")
	c.Flags().StringVar(&f.start, "record-start", "",
		"regular expression (RE2) that matches the start of a record, such as '^\\d{4}-'; "+
			"the session keeps it\n"+
			"(default: none, records are found by indentation and known forms)")
}

// apply sets the options for records from the flags.
func (f *recordFlags) apply(o *client.ScoreOptions) error {
	if f.start != "" && !f.on {
		return usagef("--record-start is %q without --records, expected both", f.start)
	}
	if err := lines.CheckPattern(f.start); err != nil {
		return usagef("--record-start is %q, expected %w", f.start, err)
	}
	if o.Records, o.RecordStart = f.on, f.start; f.on {
		o.Lines = true
	}
	return nil
}

// troubleWords returns the trouble words that a flag selects: the default list, or the words in a
// file. "" selects none.
func troubleWords(name string) (list string, err error) {
	switch name {
	case "":
		return "", nil
	case "default":
		return lines.TroubleDefault, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", usagef("--trouble-words: %w", err)
	}
	if list, err = lines.TroubleWords(string(text)); err != nil {
		return "", usagef("--trouble-words: %s: %w", name, err)
	}
	return list, nil
}

func registerTroubleWords(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "trouble-words", "", "file of words, one a line, that make a line "+
		"stranger if they are rare, or\n\"default\" (error, failed and similar words); "+
		"the session keeps them (default: none)")
}

// lineChoice selects the lines to print: all lines above a threshold, or the strangest lines.
type lineChoice struct {
	threshold string
	top       int
}

// register registers the flags. Parameter rate is the default of --threshold; with "", all lines
// are printed.
func (f *lineChoice) register(c *cobra.Command, rate string) {
	c.Flags().StringVar(&f.threshold, "threshold", rate,
		"a line is printed if at most this share of ordinary lines is as strange as it, such as "+
			"1/1000 or 0.001")
	c.Flags().IntVar(&f.top, "top", 0,
		"number of strangest lines to print at the end, strangest first (default: lines are "+
			"printed as they arrive)")
}

// check validates the flags, and returns the threshold: the largest p of a strange line. It returns
// 0 if all lines are printed.
func (f *lineChoice) check(c *cobra.Command) (threshold float64, err error) {
	top := c.Flags().Changed("top")
	if top && c.Flags().Changed("threshold") {
		err := errors.New("--threshold and --top are both given, expected one of them")
		return 0, usageError{err}
	}
	if top && (f.top < 1 || f.top > topMax) {
		return 0, usagef("--top is %d, expected 1 to %d", f.top, topMax)
	}
	if f.threshold == "" {
		return 0, nil
	}
	if threshold, err = watch.ParseRate(f.threshold); err != nil {
		return 0, usagef("--threshold is %w", err)
	}
	return threshold, nil
}

// list returns an empty list for the strangest lines. It returns nil if lines are printed as they
// arrive.
func (f *lineChoice) list() *watch.Top {
	if f.top == 0 {
		return nil
	}
	return &watch.Top{Size: f.top}
}
