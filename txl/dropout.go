package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Dropout is used only in training. Hidden is the probability of dropping an element of hidden
// states: embeddings, outputs of attention and feed-forward, inner activations of feed-forward, and
// the last hidden states. Attention is the probability of dropping an attention probability. Both
// are rounded to multiples of 1/65536. A mask is a pure function of Key and of the element's
// position, so that backward can compute the masks of forward again. Every segment needs a
// different Key.
type Dropout struct {
	Hidden, Attention float32
	Key               uint64
}

// Sites number the places of dropout in the network. They are inputs of the masks, so that each
// place has different masks.
const (
	siteEmbedding = iota
	siteAttention
	siteAttentionOut
	siteInner
	siteFeedForward
	siteOutput
)

// rows zeroes elements of rows from..to of buf [*,width] and scales the others by 1/(1-p). The same
// call on the gradients is the backward pass.
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

// dropRow sets dst to src under the mask of the random words from counter on.
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
