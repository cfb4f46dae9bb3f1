package bench

import (
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
)

const (
	trainBatch = 8    // streams in a step of training
	trainMost  = 1e11 // maximum operations of a step: the batch is halved for larger models

	// adamBytes is the number of bytes that Adam must move for a weight. It reads the gradient
	// twice, first for its norm. It reads and writes the weight and both moments.
	adamBytes = 32
)

// train measures a step of pretraining: forward, the gradients of all weights, Adam.
func (b *bench) train() {
	all := func(string) bool { return true }
	size := b.segmentOf(trainBatch, b.model.LM.Config.SegLen)
	for size.batch > 1 && size.forward()+size.backward(all) > trainMost {
		size.batch /= 2
	}
	t := b.newText(size)
	t.All = stream.NewArenaOfAll(t.Network.Layout)
	weights := slices.Clone(t.Network.W) // Adam changes a copy of the model's weights
	adam := optim.NewAdam(len(weights), optim.Beta1, optim.Beta2, optim.Epsilon, 0.25)
	w := work{
		products: size.forward() + size.backward(all),
		streams:  adamBytes * float64(len(weights)),
		reads:    2 * size.tailReads(),
	}
	for _, threads := range b.threadCounts() {
		b.measure(threads, t.task(Train, "step of training", w), func() {
			t.Begin()
			t.score()
			t.Backward(t.next)
			t.Remember()
			adam.Step(b.x, weights, t.All.Values, 1e-6)
		})
	}
}
