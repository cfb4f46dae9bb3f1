package train

import (
	"github.com/lmserve/lmserve/internal/companion"
	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/stream"
)

// mixer is a companion beside the step of one stream of bytes: what is lost is then the mixture's,
// and so is what is learnt, as far as it has a share.
type mixer struct {
	counts  *companion.State
	scratch *companion.Scratch
	share   float32   // of the mixture's loss in what the fast weights learn from
	network []float32 // distribution of the network [256]
	slopes  []float32 // of the chunk, see stream.LogitGradients
	logits  []float32 // gradients of the chunk's losses [T,256]
}

// newMixer returns a companion, of the size that sessions have by default, beside steps of chunks
// of so many tokens.
func newMixer(x *kernel.Exec, chunk, vocab int, share float32) *mixer {
	set := companion.Settings{TableBytes: companion.TableBytesDefault, Networks: 1}
	return &mixer{
		counts: companion.New(set), scratch: companion.NewScratch(x.Vectors), share: share,
		network: make([]float32, vocab), logits: make([]float32, chunk*vocab),
	}
}

// score writes the mixture's losses, in nats, of a chunk's targets [n]. The step's segment holds the
// chunk.
func (m *mixer) score(s *stream.Step, targets []int32, nll []float32) {
	m.slopes = m.slopes[:0]
	m.scratch.Begin(m.counts)
	for i, id := range targets {
		s.Segment.LogProbs(i, 0, m.network)
		nll[i] = m.scratch.Score(m.counts, companion.Networks{m.network}, byte(id))
		slopes := m.scratch.Slopes()
		m.slopes = append(m.slopes, slopes[:]...)
	}
}

// learnFrom makes the step's backward that of a loss of the chunk that was scored last, in which the
// mixture's loss has the share and the network's own the rest.
func (m *mixer) learnFrom(s *stream.Step, targets []int32, share float32) {
	if s.Logits = nil; share > 0 {
		s.Logits = m.logits
		stream.LogitGradients(m.scratch, s.Segment, targets, m.slopes, share, m.logits)
	}
}

func (m *mixer) save(c *checkpoint) {
	c.putBytes("companion", m.counts.AppendTo(nil))
}

func (m *mixer) load(c *checkpoint) {
	set := m.counts.Settings()
	data := c.getBytes("companion", int(companion.EncodedBytes(set)))
	if c.err != nil {
		return
	}
	counts, err := companion.Decode(set, data)
	if c.failWith(err); err == nil {
		m.counts = counts
	}
}
