package train

import (
	"context"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
)

// validator measures models on the validation text, in the same way as a server scores text.
type validator struct {
	text    *corpus.Corpus
	options ValidationOptions
	seed    uint64
	threads int
	// companion says whether the network is mixed with a companion.
	companion bool
}

// measure scores the validation text chunk by chunk, as sessions do: without fast weights and, for
// a model with meta-learners, also with fast weights. The parameter static is the known static
// result, or nil. If the context ends, measure returns the context's error.
func (v *validator) measure(
	ctx context.Context, m *model.Model, static *float64,
) (result Measurement, err error) {
	x := kernel.NewExecIn(v.threads, m.Arithmetic)
	defer x.Close()
	result.Companion = v.companion
	if words, ok := m.Tokenizer.(*tokenizer.Words); ok {
		result.Words = new(countOf(v.text, words))
	}
	if static != nil {
		result.Static = *static
	} else if result.Static, err = v.bits(ctx, m, newStep(x, m.LM, 1)); err != nil {
		return result, err
	}
	if m.Learner == nil {
		return result, nil
	}
	adaptive, err := v.bits(ctx, m, newServingStep(x, m, v.seed))
	result.Adaptive = &adaptive
	return result, err
}

func newServingStep(x *kernel.Exec, m *model.Model, seed uint64) stream.Step {
	s := newStep(x, m.LM, 1)
	s.Rule = stream.Rule{
		Learner: m.Learner, Tables: m.Tables, Settings: m.Learner.Settings,
		Precision: stream.ServingPrecision,
	}
	s.State = s.NewState(seed)
	s.Fast, s.Grads = stream.NewArena(m), stream.NewArena(m)
	return s
}

func (v *validator) bits(ctx context.Context, m *model.Model, s stream.Step) (float64, error) {
	text, documents := newText(s, 1, m.Chunk), v.text.Documents
	if v.companion {
		text.mixer = newMixer(&text, m, m.Mixture)
	}
	if v.options.OneStream {
		documents = []corpus.Document{v.text.Joined()}
	}
	sum, tokens := 0., 0
	for i := range documents {
		bits, err := text.document(ctx, &documents[i], m.Tokenizer.Start())
		if err != nil {
			return 0, err
		}
		sum, tokens = sum+bits, tokens+documents[i].Len()
	}
	return sum / float64(tokens), nil
}

// document scores a document as a separate stream, and returns the sum of bits. The stream adapts
// if the step has a state. The parameter `first` is the token before the document's first token.
func (t *textStep) document(
	ctx context.Context, doc *corpus.Document, first int32,
) (bits float64, err error) {
	t.Memory.Reset()
	t.reset()
	if t.State != nil {
		t.State.Step = 0
	}
	for at, n := 0, 0; at < doc.Len(); at += n {
		if err := ctx.Err(); err != nil {
			return bits, err
		}
		n = doc.Read(at, first, t.inputs, t.targets)
		if at == 0 {
			t.begin()
		} else {
			t.goOn()
		}
		t.losses(n)
		bits = stream.AddBits(bits, t.nll[:n])
		// an incomplete chunk does not change the fast weights
		if t.State != nil && n == len(t.targets) {
			t.backwardOfInput(false)
			t.Update()
		}
	}
	return bits, nil
}

func countOf(c *corpus.Corpus, words *tokenizer.Words) WordCount {
	return WordCount{Tokens: c.Tokens(), Unknown: c.Occurrences(words.Unknown())}
}
