package bench

import (
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
)

const (
	trainBatch = 8 // streams in a training step
	// maximum operations of a training step; larger models get smaller batches
	trainMost = 1e11

	// adamBytes is the number of bytes that Adam moves for a weight. Adam reads the gradient twice,
	// first for the norm of all gradients. It reads and writes the weight and both moments.
	adamBytes = 32
)

// train measures a pretraining step: forward, the gradients of all weights, and Adam.
func (b *bench) train() {
	all := func(string) bool { return true }
	size := b.segmentOf(trainBatch, b.model.LM.Config.SegLen)
	for size.batch > 1 && size.forward()+size.backward(all) > trainMost {
		size.batch /= 2
	}
	t := b.newText(size)
	t.All = stream.NewArenaOfAll(t.Network.Layout)
	weights := slices.Clone(t.Network.W) // Adam changes this copy, not the model's weights
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
