package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Dropout configures dropout in training. Hidden is the probability of dropping an element. It
// applies to the embeddings, the outputs of attention and feed-forward, the activations inside
// feed-forward, and the last hidden states. Attention is the probability of dropping an attention
// probability. Both probabilities are rounded to multiples of 1/65536. A mask depends only on Key
// and the element's position, so the backward pass can compute the masks again. Every segment needs
// a different Key.
type Dropout struct {
	Hidden, Attention float32
	Key               uint64
}

// Each constant numbers a place of dropout in the network. The numbers are inputs of the masks, so
// that each place has different masks.
const (
	siteEmbedding = iota
	siteAttention
	siteAttentionOut
	siteInner
	siteFeedForward
	siteOutput
)

// rows applies dropout to the rows of buf [*,width] with index at least `from` and below `to`. It
// scales the remaining elements by 1/(1-p). Applied to the gradients, rows is the backward pass of
// dropout.
func (d *Dropout) rows(site, layer int, buf []float32, width, from, to int) {
	if d.Hidden <= 0 {
		return
	}
	key := kernel.Key(d.Key, uint64(site), uint64(layer))
	stride := (width + 3) / 4
	for r := from; r < to; r++ {
		y := rowOf(buf, r, width)
		dropRow(y, y, d.Hidden, key, uint64(r*stride))
	}
}

// dropRow writes src with dropout to dst. The mask is made of the random words from counter on.
func dropRow(dst, src []float32, p float32, key, counter uint64) {
	limit := uint64(math.Round(float64(p) * (1 << 16)))
	keep := 1 / (1 - p)
	var bits uint64
	for j, v := range src {
		if j%4 == 0 {
			bits = kernel.Bits(key, counter+uint64(j/4))
		}
		if bits&0xffff < limit {
			dst[j] = 0
		} else {
			dst[j] = v * keep
		}
		bits >>= 16
	}
}
