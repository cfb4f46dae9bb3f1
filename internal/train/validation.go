package train

import (
	"context"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/internal/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
)

// validationPieceBytes is the text scored between two looks at the context.
const validationPieceBytes = 4096

// validator measures models on the validation text as they would serve it.
type validator struct {
	text    *corpus.Corpus
	options ValidationOptions
	seed    uint64 // seed of the masks
	threads int
}

// measure scores the validation text, statically and (with meta-learners) adaptively. static, if
// not nil, is the static result, which is known already. When the context ends, measure stops with
// the context's error.
func (v *validator) measure(ctx context.Context, m *model.Model, static *float64) (Measurement, error) {
	w := stream.NewWorker(m, v.threads)
	defer w.Close()
	set := stream.Defaults(m)
	set.Seed = v.seed
	set.Baseline = set.Method == stream.SparseMeta && static == nil
	var main, baseline tokenizer.Tally
	s := stream.New(m, set)
	for _, doc := range v.text.Documents {
		if err := feed(ctx, w, s, doc.Text); err != nil {
			return Measurement{}, err
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
		return Measurement{Static: main.BitsPerChar()}, nil
	}
	adaptive := main.BitsPerChar()
	result := Measurement{Static: baseline.BitsPerChar(), Adaptive: &adaptive}
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
