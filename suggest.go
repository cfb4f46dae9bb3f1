package lmserve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// Unit says where a suggestion can end.
type Unit string

// Units of suggestions. A word consists of letters, digits, ' and _.
const (
	UnitWord     Unit = "word"  // at the end of this word or, after one character, of the next
	UnitWordPlus Unit = "word+" // at the end of a word, with up to ten other characters before it
	UnitLine     Unit = "line"  // anywhere within the line
	UnitFree     Unit = "free"  // anywhere
)

// SuggestOptions describe the wanted suggestions. The zero value asks for one suggestion within
// the line.
type SuggestOptions struct {
	N      int           // maximum number of suggestions; 0: one
	Unit   Unit          // where suggestions end; "": UnitLine
	Least  float64       // minimum probability of a suggestion; 0: .002
	Within time.Duration // time after which the search ends; 0: after a fixed number of steps
}

// Validate returns an error for the first option that is out of range.
func (o SuggestOptions) Validate() error {
	switch {
	case o.N < 0:
		return fmt.Errorf("lmserve: option n is %d, expected 1 or more, or 0 for one text", o.N)
	case !slices.Contains([]Unit{"", UnitWord, UnitWordPlus, UnitLine, UnitFree}, o.Unit):
		return fmt.Errorf("lmserve: option unit is %q, expected word, word+, line or free", o.Unit)
	case !(o.Least >= 0 && o.Least <= 1):
		return fmt.Errorf("lmserve: option least is %v, expected 0 to 1", o.Least)
	case o.Within < 0:
		return fmt.Errorf("lmserve: option within is %v, expected 0 (no limit) or more", o.Within)
	}
	return nil
}

// Suggestion is a text that may come next.
type Suggestion struct {
	Text string
	// Probability is the probability that the text comes next. For a word it includes that a
	// separator follows the word.
	Probability float64
	// Separator is the likeliest character after a suggested word; "" if this character is not
	// known.
	Separator string
	// Gain is the number of keystrokes saved if the suggestion is right.
	Gain float64
}

// Suggest searches for texts that may follow the stream's text and the typed text of at most 1024
// bytes. The suggestion that saves most keystrokes comes first. The stream's text and scores do not
// change. The stream keeps the results for the next call, whose typed text may extend this one.
// Models of words and MethodCache make no suggestions. If the context ends, Suggest returns the
// context's error.
func (s *Stream) Suggest(
	ctx context.Context, typed []byte, o SuggestOptions,
) (found []Suggestion, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	asked := suggest.Options{
		N: cmp.Or(o.N, 1), Unit: suggest.Unit(cmp.Or(o.Unit, UnitLine)),
		Least: o.Least, Within: o.Within,
	}
	s.model.compute(func(w *stream.Worker) {
		var what suggest.Found
		what, err = w.Suggest(ctx, s.state, &s.suggester, typed, asked)
		for _, c := range what.Candidates {
			found = append(found, Suggestion{c.Text, c.Probability, c.Separator, c.Gain})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("lmserve: suggest: %w", err)
	}
	return found, nil
}
