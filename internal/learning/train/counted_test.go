package train

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
)

// The loss and the gradients of a stream are those with a separate companion for the stream. They
// depend neither on other streams nor on the number of threads.
func TestEveryStreamOfABatchHasACompanionOfItsOwn(t *testing.T) {
	const batch, length, share, steps = 3, 64, .75, 5
	lm, err := txl.NewModel(txl.Config{
		NLayer: 1, DModel: 8, NHead: 1, DHead: 8, DInner: 8, Vocab: 256, SegLen: length,
		MemLen: length,
	})
	require.NoError(t, err)
	for i := range lm.W {
		lm.W[i] = float32(i%7) / 7
	}
	for _, threads := range []int{1, 3} {
		x := kernel.NewExec(threads)
		defer x.Close()
		text := newText(newStep(x, lm, batch), batch, length)
		c := newCounted(x, batch, length, share)
		rng := rand.New(rand.NewPCG(1, 2))
		alone := companion.NewScratch(x.Vectors)
		var counts [batch]*companion.State
		for i := range counts {
			counts[i] = companion.New(c.streams[i].counts.Settings())
		}
		// the test begins two steps before the first stream's companion restarts
		first := countedText/length - 2
		for step := first; step < first+steps; step++ {
			for i := range text.inputs {
				text.inputs[i], text.targets[i] = rng.Int32N(9), rng.Int32N(9)
			}
			if step*length%countedText == 0 {
				counts[0].Reset()
			}
			c.begin(step, length)
			text.Begin()
			text.Score(text.inputs, nil, nil)
			c.score(x, text.Segment, text.targets, text.nll)
			for i, s := range counts {
				of := companion.Networks{make([]float32, 256)}
				alone.Begin(s)
				for row := range length {
					at := row*batch + i
					b, want := byte(text.targets[at]), [256]float32{}
					text.Segment.LogProbs(row, i, of[0])
					require.Equal(t, alone.Score(s, of, b), text.nll[at])
					slopes := alone.Slopes()
					alone.Gradient(of[0], b, &slopes, share, want[:])
					require.Equal(t, want[:], c.logits[256*at:256*at+256])
				}
				require.Equal(t, s.Length(), c.streams[i].counts.Length())
			}
			text.Remember()
		}
		require.EqualValues(t, (steps-2)*length, counts[0].Length())
	}
}
