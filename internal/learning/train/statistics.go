package train

import (
	"context"
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
)

// GradientRMS returns the root mean square of every weight's gradient, for model.WithStatistics.
// The result has the layout of m.LM.W. Each gradient is the gradient of the mean loss of one chunk,
// after the earlier text has filled the memory. The parameter length is the number of tokens in a
// chunk. The seed draws the chunks from the corpus; all positions are equally likely. Files shorter
// than a chunk are left out. For a model of words, GradientRMS encodes the corpus.
//
// The error wraps corpus.ErrData if no file is long enough, and ErrDiverged if a gradient is not
// finite. If ctx ends, GradientRMS returns after the current chunk. The function progress gets the
// number of chunks done and the number of all chunks; it may be nil.
func GradientRMS(
	ctx context.Context, x *kernel.Exec, m *model.Model, c *corpus.Corpus, chunks, length int,
	seed uint64, progress func(done, total int64),
) ([]float32, error) {
	if chunks < 1 || length < 1 {
		return nil, fmt.Errorf("train: statistics: found %d chunks of %d tokens each, expected "+
			"at least 1 chunk and 1 token", chunks, length)
	}
	if m.OfWords() {
		if err := c.Encode(m.Tokenizer, func(int) error { return ctx.Err() }); err != nil {
			return nil, err
		}
	}
	if c.Places(length) == 0 {
		return nil, fmt.Errorf("%w: directory %s has no file of at least %d %s, the size of a "+
			"chunk for the statistics", corpus.ErrData, c.Dir, length, c.Unit())
	}
	g := newGatherer(x, m, length)
	for i := range chunks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(int64(i), int64(chunks))
		}
		g.add(c.Draw(kernel.Bits(kernel.Key(seed), uint64(i)), length))
	}
	return g.rms(chunks)
}

type gatherer struct {
	first   int32 // the token before a document's first token
	text    textStep
	squares []float32
}

func newGatherer(x *kernel.Exec, m *model.Model, length int) *gatherer {
	step := newStep(x, m.LM, 1)
	step.All = stream.NewArenaOfAll(m.LM.Layout)
	return &gatherer{first: m.Tokenizer.Start(), text: newText(step, 1, length),
		squares: make([]float32, len(m.LM.W))}
}

// add adds the squared gradient of a document's chunk. The parameter `at` is the index of the
// chunk's first token.
func (g *gatherer) add(doc *corpus.Document, at int) {
	length := len(g.text.targets)
	g.text.Memory.Reset()
	for from := at - (g.text.Network.Config.MemLen+
		length-1)/length*length; from < at; from += length {
		if from >= 0 { // an incomplete chunk at the beginning of a document is not read
			g.forward(doc, from)
			g.text.Remember()
		}
	}
	g.forward(doc, at)
	g.text.Backward(g.text.targets)
	for i, v := range g.text.All.Values {
		g.squares[i] += float32(v * v)
	}
}

func (g *gatherer) forward(doc *corpus.Document, at int) {
	doc.Read(at, g.first, g.text.inputs, g.text.targets)
	g.text.forward()
}

func (g *gatherer) rms(chunks int) ([]float32, error) {
	for i, sum := range g.squares {
		v := math.Sqrt(float64(sum) / float64(chunks))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: statistics: the mean square of the gradients is %v at "+
				"weight %d, expected a finite number",
				ErrDiverged, v*v, i)
		}
		g.squares[i] = float32(v)
	}
	return g.squares, nil
}
