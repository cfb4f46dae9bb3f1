package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
)

// In pretraining, a companion (the counts of a stream's text) restarts after countedText bytes. So
// its counts are as small as those of a typical session. countedTable is the size of the
// companion's table, in bytes.
const (
	countedText  = 1 << 15
	countedTable = 1 << 19
)

// counted has a companion for each stream of a batch, as each session has. The slow weights learn
// from a weighted sum of two losses: the loss of the mixture of network and companion, and the
// network's own loss.
type counted struct {
	// weight of the mixture's loss; the network's own loss has the weight 1-share
	share   float32
	streams []countedStream
	logits  []float32 // gradients of the losses with respect to the logits, [T,B,256]

	segment *txl.Segment
	targets []int32 // [T,B]
	nll     []float32
}

type countedStream struct {
	counts   *companion.State
	scratch  *companion.Scratch
	networks companion.Networks
}

func newCounted(x *kernel.Exec, batch, length int, share float32) *counted {
	c := &counted{
		share: share, streams: make([]countedStream, batch),
		logits: make([]float32, batch*length*256),
	}
	for i := range c.streams {
		c.streams[i] = countedStream{
			companion.New(companion.Settings{TableBytes: countedTable, Networks: 1}),
			companion.NewScratch(x.Vectors), companion.Networks{make([]float32, 256)},
		}
	}
	return c
}

// begin restarts the companions that are due at a step. Each companion restarts about every
// countedText bytes. The restarts of the streams are spread evenly over the steps.
func (c *counted) begin(step, length int) {
	for i := range c.streams {
		if (step*length+i*countedText/len(c.streams))%countedText < length {
			c.streams[i].counts.Reset()
		}
	}
}

// score writes the mixture's losses of the targets [T,B] to nll, in nats. It also computes the
// gradients from which the slow weights learn, with respect to the logits.
func (c *counted) score(x *kernel.Exec, seg *txl.Segment, targets []int32, nll []float32) {
	c.segment, c.targets, c.nll = seg, targets, nll
	x.Parallel(len(c.streams), c)
}

// Do implements kernel.Task. Task i scores stream i.
func (c *counted) Do(_ *kernel.Exec, i int) {
	s := &c.streams[i]
	s.scratch.Begin(s.counts)
	for row := 0; row*len(c.streams) < len(c.targets); row++ {
		at := row*len(c.streams) + i
		b := byte(c.targets[at])
		c.segment.LogProbs(row, i, s.networks[0])
		c.nll[at] = s.scratch.Score(s.counts, s.networks, b)
		slopes := s.scratch.Slopes()
		s.scratch.Gradient(s.networks[0], b, &slopes, c.share, c.logits[256*at:256*at+256])
	}
}

func (c *counted) save(to *checkpoint) {
	for i := range c.streams {
		to.putBytes(countedName(i), c.streams[i].counts.AppendTo(nil))
	}
}

func (c *counted) load(from *checkpoint) {
	for i := range c.streams {
		from.getCompanion(countedName(i), &c.streams[i].counts)
	}
}

func countedName(stream int) string { return fmt.Sprintf("companion.%d", stream) }
