package train

import (
	"context"
	"fmt"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// validationPieceBytes is the text scored between two looks at the context.
const validationPieceBytes = 4096

// Validation is a measurement on the validation text, in bits a character.
type Validation struct {
	Step     int      `json:"step"` // of the phase
	Static   float64  `json:"static"`
	Adaptive *float64 `json:"adaptive,omitempty"` // nil for a model without meta-learners
}

func (v Validation) String() string {
	text := fmt.Sprintf("valid bpc static %.4f", v.Static)
	if v.Adaptive != nil {
		text += fmt.Sprintf(", adaptive %.4f", *v.Adaptive)
	}
	return text
}

// score is what the best checkpoint is chosen by: the adaptive measure if there is one.
func (v Validation) score() float64 {
	if v.Adaptive != nil {
		return *v.Adaptive
	}
	return v.Static
}

// validator measures models on the validation text as they would serve it.
type validator struct {
	text    *Corpus
	options ValidationOptions
	seed    uint64 // of the masks
	threads int
}

// measure scores the validation text, statically and (with meta-learners) adaptively. static, if not nil, is the static result where it
// is known already. It stops with the context's error when that ends.
func (v *validator) measure(ctx context.Context, m *model.Model, static *float64) (Validation, error) {
	w := stream.NewWorker(m, v.threads)
	defer w.Close()
	set := stream.Defaults(m)
	set.Seed = v.seed
	set.Baseline = set.Method == stream.SparseMeta && static == nil
	var main, baseline tokenizer.Tally
	s := stream.New(m, set)
	for _, doc := range v.text.Documents {
		if err := feed(ctx, w, s, doc.Text); err != nil {
			return Validation{}, err
		}
		if !v.options.OneStream {
			main.Add(s.Tally)
			baseline.Add(s.Baseline)
			s = stream.New(m, set)
		}
	}
	main.Add(s.Tally)
	baseline.Add(s.Baseline)
	if set.Method == stream.Static {
		return Validation{Static: main.BitsPerChar()}, nil
	}
	adaptive := main.BitsPerChar()
	result := Validation{Static: baseline.BitsPerChar(), Adaptive: &adaptive}
	if static != nil {
		result.Static = *static
	}
	return result, nil
}

func feed(ctx context.Context, w *stream.Worker, s *stream.Stream, text []byte) error {
	for len(text) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(text), validationPieceBytes)
		w.Feed(s, text[:n], nil)
		text = text[n:]
	}
	return nil
}
