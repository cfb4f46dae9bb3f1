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
	// at the end of a word, with at most one other character before the word
	UnitWord Unit = "word"
	// at the end of a word, with at most ten other characters before the word
	UnitWordPlus Unit = "word+"
	UnitLine     Unit = "line" // anywhere in the current line
	UnitFree     Unit = "free" // anywhere
)

// SuggestOptions select suggestions. The zero value asks for one suggestion within the current
// line.
type SuggestOptions struct {
	N      int           // maximum number of suggestions; 0 means 1
	Unit   Unit          // where suggestions end; "" means UnitLine
	Least  float64       // minimum probability of a suggestion; 0 means 0.002
	Within time.Duration // time limit of the search; 0 means a fixed number of steps
}

// Validate returns an error for the first option that is out of range.
func (o SuggestOptions) Validate() error {
	switch {
	case o.N < 0:
		return fmt.Errorf("lmserve: option n is %d, expected at least 0 (default: one text)", o.N)
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
	// Probability is the probability that the text comes next. For a word, it includes the
	// probability of a separator after the word.
	Probability float64
	// Separator is the likeliest character after a suggested word, or "" if unknown.
	Separator string
	// Gain is the number of keystrokes saved if the suggestion is right.
	Gain float64
}

// Suggest returns likely continuations of the stream's text followed by typed, which has at most
// 1024 bytes. The first suggestion saves the most keystrokes. The stream's text and scores do not
// change. The stream keeps results for the next call, in which typed may be longer. Word-level
// models and MethodCache give no suggestions. If ctx ends, Suggest returns the context's error.
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
