package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// Dropout is used in training only. Hidden acts on embeddings, the outputs of
// attention and feed-forward, the feed-forward's inner activations and the
// last hidden states; Attention on the attention probabilities. Both are the
// probability of dropping, quantised to 1/65536. Masks are a pure function of
// Key and the element's place, so backward redraws what forward drew: use a
// new Key for every segment.
type Dropout struct {
	Hidden, Attention float32
	Key               uint64
}

// SetDropout holds from the next Begin on; the zero value turns dropout off.
func (s *Segment) SetDropout(d Dropout) { s.drop = d }

// Sites keep the masks of different places apart.
const (
	siteEmbedding = iota
	siteAttention
	siteAttentionOut
	siteInner
	siteFeedForward
	siteOutput
)

// dropRows zeroes elements of rows from..to of buf [*,width] and scales the
// others by 1/(1-p): its own backward.
func (s *Segment) dropRows(site, layer int, buf []float32, width, from, to int) {
	if s.drop.Hidden <= 0 {
		return
	}
	key := kernel.Key(s.drop.Key, uint64(site), uint64(layer))
	stride := (width + 3) / 4
	for r := from; r < to; r++ {
		y := buf[r*width : (r+1)*width]
		dropRow(y, y, s.drop.Hidden, key, uint64(r*stride))
	}
}

// dropAttention sets dst to the dropped probabilities of a block.
func (s *Segment) dropAttention(layer int, k *block, dst, prob kernel.Matrix) {
	key := kernel.Key(s.drop.Key, siteAttention, uint64(layer), uint64(k.b), uint64(k.h))
	stride := (s.cfg.maxKeys(s.T) + 3) / 4
	for i := range prob.Rows {
		dropRow(row(dst, i), row(prob, i), s.drop.Attention, key, uint64((k.i0+i)*stride))
	}
}

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
