package bench

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/txl"
)

// counts is a companion of a network with uniform predictions, and the text that the companion
// reads.
type counts struct {
	language
	state   *companion.State
	scratch *companion.Scratch
	of      companion.Networks
	at      uint64
}

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

func (c *counts) read(bytes int) {
	c.scratch.Begin(c.state)
	for range bytes {
		c.scratch.Score(c.state, c.of, byte(c.token(c.at)))
		c.at++
	}
	c.scratch.Back(c.state)
	c.scratch.Forth(c.state)
}

func (b *bench) hasCompanion() bool { return !b.model.OfWords() }

// companionChunk measures the companion's time for a chunk, on one thread. The time for reading the
// network's distributions is a lower bound. The parameter `static` is the time of a static chunk in
// seconds.
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

// staticBeside measures a chunk of the static model beside the adaptive model, for a companion that
// mixes both. The parameter `adaptive` is the time of the adaptive chunk alone, in seconds.
func (b *bench) staticBeside(threads int, t *text, adaptive float64) {
	if b.ctx.Err() != nil {
		return
	}
	a := newAdaptive(t, b.model)
	a.score() // the static segment reuses results of the adaptive segment
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

// companionToken measures the companion's distribution over all bytes, from which a completion
// samples a byte.
func (b *bench) companionToken() {
	c, logProbs := b.newCounts(), make([]float32, 256)
	t := task{
		section: Decode, what: "companion of a token", shape: "256",
		work: work{reads: distributionBytes}, amount: 1, unit: tokens,
	}
	b.measure(1, t, func() { c.scratch.Distribution(c.state, c.of, logProbs) })
}

// distributionBytes is the size of a float32 distribution over all bytes.
const distributionBytes = 4 * 256
