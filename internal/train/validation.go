package train

import (
	"context"

	"github.com/lmserve/lmserve/internal/kernel"
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
	if words, ok := m.Tokenizer.(*tokenizer.Words); ok {
		return v.measureWords(ctx, m, words)
	}
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

// measureWords scores the validation text with the static model, in segments as long as those of
// pretraining by default, as the literature evaluates models of words.
func (v *validator) measureWords(
	ctx context.Context, m *model.Model, words *tokenizer.Words,
) (Measurement, error) {
	x := kernel.NewExecIn(v.threads, m.Arithmetic)
	defer x.Close()
	text := newText(newStep(x, m.LM, 1), 1, m.LM.Config.SegLen)
	bits := 0.
	for i := range v.text.Documents {
		doc := &v.text.Documents[i]
		if !v.options.OneStream {
			text.Memory.Reset()
		}
		for at := 0; at < doc.Len(); {
			if err := ctx.Err(); err != nil {
				return Measurement{}, err
			}
			n := doc.Read(at, words.Start(), text.inputs, text.targets)
			text.Begin()
			text.Score(text.inputs[:n], text.targets[:n], text.nll[:n])
			text.Remember()
			bits = stream.AddBits(bits, text.nll[:n])
			at += n
		}
	}
	count := WordCount{Tokens: v.text.Tokens(), Unknown: v.text.Occurrences(words.Unknown())}
	return Measurement{Static: bits / float64(count.Tokens), Words: &count}, nil
}
