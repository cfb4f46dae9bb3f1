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

// Unit says where a suggestion may end.
type Unit string

// Units of suggestions. A word is letters, digits, ' and _.
const (
	UnitWord     Unit = "word"  // the rest of the word, or the next word behind one other character
	UnitWordPlus Unit = "word+" // a word behind up to ten other characters
	UnitLine     Unit = "line"  // anywhere within the line
	UnitFree     Unit = "free"  // anywhere
)

// SuggestOptions say what to suggest. The zero value asks for one suggestion within the line.
type SuggestOptions struct {
	N      int           // suggestions, at most; 0: one
	Unit   Unit          // where they end; "": UnitLine
	Least  float64       // the least probability of one; 0: .002
	Within time.Duration // the search ends after this time; 0: after a fixed number of steps
}

// Validate reports the first option that is out of range.
func (o SuggestOptions) Validate() error {
	switch {
	case o.N < 0:
		return fmt.Errorf("lmserve: n is %d, expected 0 (one) or more", o.N)
	case !slices.Contains([]Unit{"", UnitWord, UnitWordPlus, UnitLine, UnitFree}, o.Unit):
		return fmt.Errorf("lmserve: unit is %q, expected word, word+, line or free", o.Unit)
	case !(o.Least >= 0 && o.Least <= 1):
		return fmt.Errorf("lmserve: least is %v, expected 0 to 1", o.Least)
	case o.Within < 0:
		return fmt.Errorf("lmserve: within is %v, expected 0 (no bound) or more", o.Within)
	}
	return nil
}

// Suggestion is a text that may come next.
type Suggestion struct {
	Text string
	// Probability is that of the text, and for a word of a separator behind it.
	Probability float64
	// Separator is the likeliest character behind a word; "" if it is not known.
	Separator string
	// Gain is how many keystrokes the suggestion saves where it is right.
	Gain float64
}

// Suggest looks for what may come behind the stream's text and what was typed behind it, at most
// 1024 bytes: the suggestion that saves most keystrokes first. The stream stays as it is, and keeps
// what was computed for the next call, whose typed text may go on from this one's. Models of words
// and MethodCache make no suggestions. If the context ends, the error is the context's.
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
