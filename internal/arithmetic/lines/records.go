package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/strictjson"
)

const (
	recordLines = 1000
	recordBytes = 64 << 10
	// startBytes is the number of bytes at the beginning of a line in which the pattern is
	// searched.
	startBytes = 256
	// PatternMax is the maximum size, in bytes, of the pattern that matches the first line of
	// records.
	PatternMax = 256
	// patternSteps is the maximum number of instructions of a compiled pattern. It limits the time
	// to match a line.
	patternSteps = 1000
)

// Records groups lines that belong together, such as a message and the stack trace after it. A
// record begins at a line that does not continue the previous record. By default, form.continues
// decides whether a line continues a record, by indentation and by the forms of stack traces. With
// a pattern, a record begins at each line that the pattern matches. Records depend on the lines
// alone. Only one goroutine may use a Records at a time.
type Records struct {
	start *regexp.Regexp // pattern of first lines; nil means the default
	state recordState
}

type recordState struct {
	Version int           `json:"version"`
	From    int64         `json:"from"`
	Record  Line          `json:"record"` // the open record; Lines is 0 before the first line
	Why     incidents.Why `json:"why"`
	Form    form          `json:"form"`
}

// recordVersion must change when the layout of recordState changes, or when the code groups lines
// into other records.
const recordVersion = 1

// RecordsBytesMax is larger than the size, in bytes, of any state of Records.
const RecordsBytesMax = 16 << 10

// CheckPattern returns an error for an invalid pattern of first lines of records. The error says
// what was expected.
func CheckPattern(text string) error {
	if len(text) > PatternMax {
		return fmt.Errorf("a regular expression of at most %d bytes", PatternMax)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		what := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return fmt.Errorf("a valid regular expression (RE2): %s", what)
	}
	if p, err := syntax.Compile(re.Simplify()); err != nil || len(p.Inst) > patternSteps {
		return errors.New("a regular expression with fewer or smaller repetitions")
	}
	return nil
}

// NewRecords returns a Records for the lines that follow. from is the offset in the text at which a
// client requested records. start is the pattern that matches the first line of records. It must be
// valid for CheckPattern; "" means the default.
func NewRecords(from int64, start string) *Records {
	r := &Records{state: recordState{Version: recordVersion, From: from}}
	r.StartAt(start)
	return r
}

// From returns the offset in the text at which a client requested records.
func (r *Records) From() int64 { return r.state.From }

// StartAt sets the pattern that matches the first line of later records.
func (r *Records) StartAt(start string) {
	if r.start = nil; start != "" {
		r.start = regexp.MustCompile(start)
	}
}

// Clone returns an independent copy of r.
func (r *Records) Clone() *Records {
	c := *r
	c.state.Record.Text = slices.Clone(c.state.Record.Text)
	return &c
}

// Take adds the next line. If the line begins a record, Take passes the previous record to the
// function `each`; the record is valid during the call.
func (r *Records) Take(l *Line, each func(*Line)) {
	s := &r.state
	of := &s.Record
	text, split := s.Form.unwrap(l.Text)
	continues := s.Form.continues(text, of.Lines)
	if r.start != nil {
		continues = !r.start.Match(text[:min(len(text), startBytes)])
	}
	continues = continues || split
	if of.Lines == 0 || !continues || of.Lines == recordLines || of.Bytes+l.Bytes > recordBytes {
		r.Rest(each)
		if !continues || of.Lines == 0 {
			s.Form.begin(text)
		}
		kept := append(of.Text[:0], l.Text...)
		*of, s.Why = *l, l.Why()
		of.Text, of.Costs, of.Incidents, of.rating, of.Lines = kept, nil, nil, nil, 1
		return
	}
	at := int64(len(of.Text)) + 1
	of.Lines++
	of.Bytes += l.Bytes
	of.Chars += l.Chars
	of.Bits += l.Bits
	of.Baseline += l.Baseline
	if room := TextMax - len(of.Text); room > 0 && !of.Cut {
		of.Text = append(of.Text, '\n')
		of.Text = append(of.Text, l.Text[:min(len(l.Text), room-1)]...)
	}
	of.Cut = of.Cut || l.Cut || at+int64(len(l.Text)) > TextMax
	if l.Warm() && (l.P < of.P || !of.Warm()) && len(bytes.TrimSpace(l.Text)) > 0 {
		of.Strangeness, s.Why = l.Strangeness, l.Why()
		of.From, of.To = at+l.From, at+l.To
		if most := int64(len(of.Text)); at+int64(len(l.Text)) > most || of.To > most {
			of.From, of.To = 0, 0
		}
	}
}

// Rest passes the open record to the function `each`, as if the record ended here. Without an open
// record, Rest does nothing.
func (r *Records) Rest(each func(*Line)) {
	if r.state.Record.Lines > 0 && each != nil {
		l := r.state.Record
		l.why = &r.state.Why
		each(&l)
	}
}

// AppendState appends the state to dst. The pattern is not part of the state.
func (r *Records) AppendState(dst []byte) []byte {
	text, err := json.Marshal(&r.state)
	if err != nil {
		panic("lines: " + err.Error()) // cannot happen: every field can be encoded as JSON
	}
	return append(dst, text...)
}

// ReadRecords returns Records with a state that AppendState wrote, and without a pattern. An error
// wraps ErrState.
func ReadRecords(state []byte) (*Records, error) {
	r := new(Records)
	if err := strictjson.Unmarshal(state, &r.state); err != nil {
		return nil, fmt.Errorf("%w: records: %w", ErrState, err)
	}
	if version := r.state.Version; version != recordVersion {
		return nil, fmt.Errorf("%w: records: found version %d, expected %d", ErrState, version,
			recordVersion)
	}
	l := &r.state.Record
	if empty := r.state.Record.Lines == 0; r.state.From < 0 || !empty && !l.wellFormed() ||
		!bytes.Equal(r.AppendState(nil), state) {
		return nil, fmt.Errorf("%w: records: found numbers out of their range", ErrState)
	}
	return r, nil
}

func (l *Line) wellFormed() bool {
	return l.Number >= 1 && l.Offset >= 0 && l.Lines >= 1 && l.Lines <= recordLines &&
		l.Bytes >= l.Lines && l.Chars >= 0 && l.Chars <= l.Bytes && amount(l.Bits) &&
		amount(l.Baseline) && l.P > 0 && l.P <= 1 && l.Seen >= 0 && 0 <= l.From && l.From <= l.To &&
		l.To <= int64(len(l.Text)) && len(l.Text) <= TextMax
}
