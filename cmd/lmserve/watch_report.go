package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
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

// lineReport prints lines or incidents. The methods are safe for concurrent use by several streams.
type lineReport struct {
	out       io.Writer
	style     watch.Style
	sources   bool
	asJSON    bool
	measures  bool
	threshold float64         // largest rating p of a printed line; 0 prints all lines
	top       *watch.Top      // nil if lines are printed as they arrive
	incidents *incidentReport // nil if lines are printed instead of incidents

	// silent, unless nil, is called for a source that is unusually silent. Parameter since is the
	// time of the source's last line. Parameter after is the duration from which a silence is
	// unusual.
	silent func(source string, since time.Time, after time.Duration)

	note func(text string) // prints a message for the user; may be nil

	mu      sync.Mutex
	total   lineTotal
	warming map[string]bool
}

type lineTotal struct {
	lines, shown       int64
	bytes, chars       int64
	bits, baselineBits float64
	baseline           bool
	// words is true for a model that predicts words; bits per character are then omitted.
	words bool
	// ends has the end of the last line of each source. The map is nil if no line is repeated or
	// skipped.
	ends map[string]lineEnd
}

type lineEnd struct{ number, offset int64 }

// newLineReport returns a report that writes to out. Parameter `to` is the writer behind out. If
// this writer is a terminal, the output fits the terminal's width and may have colors.
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
	s.Width, _, _ = term.GetSize(int(w.(*os.File).Fd())) // width in columns; 0 if unknown
	return s
}

// line counts a scored line. If the line is strange enough, line also prints the line or its
// incidents.
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

// warmLocked prints a message, once per stream, if the stream has too few lines for ratings.
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

// add adds a line to the total. If ends is set, add also counts the source's skipped lines, and
// counts a repeated line only once.
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

// end prints the incidents that are still open or, with --top, the strangest lines.
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

// source returns the first output column: the name of the source, or "" if there is only one
// source.
func (r *lineReport) source(name string) string {
	if !r.sources {
		return ""
	}
	return name + "  "
}

// markedMost is the largest rating p at which the strange part of a line is highlighted. The limit
// applies only if all lines are printed.
const markedMost = 1. / 100

func (r *lineReport) printLocked(f watch.Found) error { return r.labeledLocked(f, "") }

// labeledLocked prints a line with a single Write. If the output gives the reason for the line's
// strangeness, the label precedes the reason.
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
	chosen := r.threshold > 0 || r.top != nil
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

// shown formats a line, or a record of several lines. For a record, shown returns the first line,
// the line with marks, and the number of omitted lines.
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

func withoutCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\r'}) }

// lineObject is the JSON form of a line: the server's event with the source, and with marks in
// place of the cost of each byte.
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
	// Without a model each byte counts as 8 bits, which says nothing about the text.
	if t.ends != nil || math.Abs(t.bits/float64(t.bytes)-8) < 1e-6 {
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

// troubleWords returns words such as "error", which make a line stranger. The name "default"
// selects a built-in list, "" selects no words, and any other name is a file of words.
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

type lineChoice struct {
	threshold string
	top       int
}

// register registers the flags. Parameter rate is the default of --threshold; with "", all lines
// are printed.
func (f *lineChoice) register(c *cobra.Command, rate string) {
	c.Flags().StringVar(&f.threshold, "threshold", rate,
		"largest share of ordinary lines that may be at least as strange as a printed line, "+
			"such as 1/1000 or 0.001")
	c.Flags().IntVar(&f.top, "top", 0,
		"number of strangest lines to print at the end, strangest first (default: lines are "+
			"printed as they arrive)")
}

// check validates the flags. It returns the largest rating p of a printed line, or 0 if all lines
// are printed.
func (f *lineChoice) check(c *cobra.Command) (threshold float64, err error) {
	if _, err := chosen(c, "threshold", "top"); err != nil {
		return 0, err
	}
	switch {
	case onCommandLine(c, "threshold"):
		f.top = 0 // a configured number would hide the lines that --threshold selects
	case c.Flags().Changed("top") && (f.top < 1 || f.top > topMax):
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

// list returns an empty list for the strangest lines if --top was given, and nil otherwise.
func (f *lineChoice) list() *watch.Top {
	if f.top == 0 {
		return nil
	}
	return &watch.Top{Size: f.top}
}
