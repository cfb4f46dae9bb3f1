package train

import (
	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// mixer mixes the network's predictions with a companion's, as a session does. The reported loss is
// the mixture's loss. The fast weights learn from a weighted sum of the mixture's loss and the
// network's loss. The mixture also contains the static network if the network has fast weights and
// the model's CompanionAlone is not set.
type mixer struct {
	counts  *companion.State
	scratch *companion.Scratch
	// weight of the mixture's loss; the network's own loss has the weight 1-share
	share    float32
	static   *stream.Step // nil if the static network is not part of the mixture
	networks companion.Networks
	slopes   []float32
	logits   []float32 // gradients of the losses with respect to the logits, [T,256]
}

// newMixer returns a mixer for a training step. m.CompanionBytes is the size of the companion's
// table.
func newMixer(t *textStep, m *model.Model, share float32) *mixer {
	set, vocab := companion.Settings{TableBytes: m.CompanionBytes, Networks: 1}, 256
	x := &mixer{
		scratch: companion.NewScratch(t.Exec.Vectors), share: share,
		logits: make([]float32, len(t.targets)*vocab),
	}
	if t.State != nil && !m.CompanionAlone {
		alike := m.LM.LayersAlike(m.IsBranch)
		set.Networks = 2
		x.static = &stream.Step{
			Exec: t.Exec, Network: t.Network, Segment: txl.NewBeside(t.Segment),
			Memory: txl.NewMemoryAbove(m.LM.Config, 1, alike),
		}
	}
	for i := range set.Networks {
		x.networks[i] = make([]float32, vocab)
	}
	x.counts = companion.New(set)
	return x
}

// score writes the mixture's losses of the targets [n] to nll [n], in nats. s.Segment must have
// read the inputs [n].
func (x *mixer) score(s *stream.Step, inputs, targets []int32, nll []float32) {
	if x.static != nil {
		x.static.Score(inputs, nil, nil)
	}
	x.slopes = x.slopes[:0]
	x.scratch.Begin(x.counts)
	for i, id := range targets {
		s.Segment.LogProbs(i, 0, x.networks[0])
		if x.static != nil {
			x.static.Segment.LogProbs(i, 0, x.networks[1])
		}
		nll[i] = x.scratch.Score(x.counts, x.networks, byte(id))
		slopes := x.scratch.Slopes()
		x.slopes = append(x.slopes, slopes[:]...)
	}
}

// learnFrom sets the loss from which the step's next backward pass learns. In this loss, the
// mixture has the weight share, and the network has the weight 1-share.
func (x *mixer) learnFrom(s *stream.Step, targets []int32, share float32) {
	if s.Logits = nil; share > 0 {
		s.Logits = x.logits
		stream.LogitGradients(x.scratch, s.Segment, targets, x.slopes, share, x.logits)
	}
}

func (x *mixer) save(c *checkpoint) {
	c.putBytes("companion", x.counts.AppendTo(nil))
	if x.static != nil {
		saveRows(c, staticMemory, x.static.Memory, x.static.Network.Config.DModel)
	}
}

// load restores what save has stored. The parameter rows is the number of rows in the memory.
func (x *mixer) load(c *checkpoint, rows int) {
	c.getCompanion("companion", &x.counts)
	if c.err == nil && x.static != nil {
		loadRows(c, staticMemory, x.static.Memory, rows, x.static.Network.Config.DModel)
	}
}

const staticMemory = "static.memory"
