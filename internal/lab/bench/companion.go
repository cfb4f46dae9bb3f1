package bench

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/txl"
)

// counts is a companion beside a uniform network, and the text that the companion reads.
type counts struct {
	language
	state   *companion.State
	scratch *companion.Scratch
	of      companion.Networks
	at      uint64 // bytes read
}

// newCounts returns a companion that has read a few thousand bytes.
func (b *bench) newCounts() *counts {
	const bytes = 5000
	uniform := make([]float32, 256)
	for i := range uniform {
		uniform[i] = -8 * math.Ln2
	}
	c := &counts{
		language: b.language,
		state: companion.New(companion.Settings{TableBytes: companion.TableBytesDefault,
			Networks: 1}),
		scratch: companion.NewScratch(b.x.Vectors), of: companion.Networks{uniform},
	}
	c.read(bytes)
	return c
}

// read scores some bytes and accepts them, like a stream.
func (c *counts) read(bytes int) {
	c.scratch.Begin(c.state)
	for range bytes {
		c.scratch.Score(c.state, c.of, byte(c.token(c.at)))
		c.at++
	}
	c.scratch.Back(c.state)
	c.scratch.Forth(c.state)
}

// hasCompanion reports whether streams of the model have a companion.
func (b *bench) hasCompanion() bool { return !b.model.OfWords() }

// companionChunk measures the cost of a companion for a chunk, on one thread. The minimum work is
// reading the network's distributions.
func (b *bench) companionChunk(static float64) {
	c := b.newCounts()
	t := task{
		section: Chunks, what: "companion of a chunk", shape: fmt.Sprint(b.Chunk),
		work: work{reads: distributionBytes * float64(b.Chunk)}, amount: float64(b.Chunk),
		unit: c.unit(),
	}
	seconds := b.measure(1, t, func() { c.read(b.Chunk) })
	if rows := b.report.Rows; b.ctx.Err() == nil {
		rows[len(rows)-1].Note = fmt.Sprintf("%.1f%% of static", 100*seconds/static)
	}
}

// staticBeside measures the cost of the static model beside the adaptive one in a chunk, as a
// companion with two networks needs it. The parameter `adaptive` is the time of the adaptive chunk
// alone.
func (b *bench) staticBeside(threads int, t *text, adaptive float64) {
	if b.ctx.Err() != nil {
		return
	}
	a := newAdaptive(t, b.model)
	a.score() // the static segment reuses rows of the adaptive one
	static := t.Step
	static.Segment = txl.NewBeside(t.Segment)
	static.Segment.SetReuse(txl.Reuse{FixedWeights: true})
	alike := b.model.LM.LayersAlike(b.model.IsBranch)
	static.Memory = txl.NewMemoryAbove(b.model.LM.Config, 1, alike)
	static.Memory.Len = t.Memory.Len
	static.Begin()
	row := t.task(Chunks, "static beside it", work{flops: t.size.forwardBeside(b.adapted())})
	seconds := b.measure(threads, row, func() {
		static.Score(t.in, t.next, t.nll)
		static.Remember()
		static.Continue()
	})
	if rows := b.report.Rows; b.ctx.Err() == nil {
		rows[len(rows)-1].Note = fmt.Sprintf("%.1f%% of adaptive", 100*seconds/adaptive)
	}
}

// companionToken measures the mixture over all bytes, from which a sampled byte is drawn.
func (b *bench) companionToken() {
	c, logProbs := b.newCounts(), make([]float32, 256)
	t := task{
		section: Decode, what: "companion of a token", shape: "256",
		work: work{reads: distributionBytes}, amount: 1, unit: tokens,
	}
	b.measure(1, t, func() { c.scratch.Distribution(c.state, c.of, logProbs) })
}

// distributionBytes is the size of a distribution over all bytes.
const distributionBytes = 4 * 256
