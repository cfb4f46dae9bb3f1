package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/txl"
)

// segment holds the sizes from which operations are counted. In each of `batch` streams, `rows`
// tokens attend to `memory` earlier tokens.
type segment struct {
	txl.Config
	batch, rows, memory int
	// shares are the fractions of the text's tokens in each cluster of an adaptive softmax. They
	// determine how often tails and projections are used; nil: one cluster.
	shares []float64
	// staleKeys is true if the memory's keys and values are constants (see txl.Reuse).
	staleKeys bool
}

// heads returns the total width of all heads.
func (s segment) heads() int { return s.NHead * s.DHead }

// inner returns the number of rows of the weight CoreNet.0, the first of the feed-forward layer.
func (s segment) inner() int {
	if s.Activation == txl.SwiGLU || s.Activation == txl.GeGLU {
		return 2 * s.DInner
	}
	return s.DInner
}

// product returns the number of operations of an m x k matrix times a k x n matrix: m*n*k
// multiplications and m*n*k additions.
func product(m, n, k int) float64 { return 2 * float64(m) * float64(n) * float64(k) }

// pairs returns the number of unmasked pairs of query and key in one attention head of one stream.
// The parameter `first` is the first counted key: 0, or s.memory to skip the memory's keys.
func (s segment) pairs(first int) (n int) {
	for i := range s.rows {
		hi := s.memory + i + 1
		lo := first
		if s.SameLength {
			lo = max(lo, hi-s.MemLen)
		}
		n += hi - lo
	}
	return n
}

// forward counts the operations of a segment's matrix products. The symbols are:
//
//	n        rows of text
//	m        rows of memory
//	B        streams
//	D        width of the model
//	hd       width of all heads
//	F1       rows of CoreNet.0
//	F        columns of CoreNet.3
//	V        vocabulary
//	P        unmasked pairs of query and key
//
// Each layer needs
//
//	q, k, v of the text      2 nB 3hd D
//	k, v of the memory       2 mB 2hd D
//	r for every distance     2 (m+n) hd D      once for all streams
//	content, position, v     3 * 2 PB hd
//	o                        2 nB D hd
//	feed-forward             2 nB F1 D + 2 nB D F
//
// The softmax layer needs 2 nB V D; for an adaptive softmax see vocabularyForward. Softmax,
// normalization, activation and bias do not count. Repeated work of an implementation does not
// count.
func (s segment) forward() float64 { return s.forwardAfter(func(string) bool { return true }) }

// forwardAfter counts like forward, for a segment that continues an earlier one. A layer reuses r,
// and the keys and values of the memory, unless `moved` reports that their weights have changed.
func (s segment) forwardAfter(moved func(tensor string) bool) float64 {
	D, hd := s.DModel, s.heads()
	attention, feedForward := s.halves()
	flops := float64(s.NLayer)*(attention+feedForward) + s.vocabularyForward()
	for i := range s.NLayer {
		if moved(fmt.Sprintf("layers.%d.dec_attn.qkv_net.weight", i)) {
			flops += product(s.memory*s.batch, 2*hd, D)
		}
		if moved(fmt.Sprintf("layers.%d.dec_attn.r_net.weight", i)) {
			flops += product(s.memory+s.rows, hd, D)
		}
	}
	return flops
}

// halves counts the forward operations of a layer's halves: attention and feed-forward layer. It
// excludes the computation of r, and of the memory's keys and values.
func (s segment) halves() (attention, feedForward float64) {
	D, hd, rows := s.DModel, s.heads(), s.rows*s.batch
	attention = product(rows, 3*hd, D) + 3*product(s.pairs(0)*s.batch, hd, 1) + product(rows, D, hd)
	return attention, product(rows, s.inner(), D) + product(rows, D, s.DInner)
}

// forwardBeside counts the operations of a static segment beside an adaptive segment. It skips the
// layers below the lowest fast weights, because both segments have equal results there.
func (s segment) forwardBeside(adapted wanted) float64 {
	attention, feedForward := s.halves()
	flops, differs := s.vocabularyForward(), s.inputWanted(adapted)
	for i := range s.NLayer {
		for _, name := range layerTensors {
			in := fmt.Sprintf("layers.%d.%s", i, name)
			if !differs && strings.HasPrefix(name, "pos_ff") && adapted(in) {
				// the adaptive segment has the same attention, since only pos_ff has fast weights
				flops -= attention
			}
			differs = differs || adapted(in)
		}
		if differs {
			flops += attention + feedForward
		}
	}
	return flops
}

// wanted reports whether the gradient of a weight, given by name, is needed.
type wanted func(tensor string) bool

// backward counts the operations of the matrix products that compute the wanted gradients. Each
// product in forward has two products of equal size in backward: for the gradient of the input and
// for the gradient of the weight. Some gradients are not needed:
//
//   - gradients of weights that are not wanted;
//   - all gradients below the lowest layer with a wanted weight;
//   - the gradient of the memory's rows;
//   - gradients of the memory's keys and values, unless the gradient of qkv_net is wanted;
//   - the gradient of the position encoding;
//   - the gradient of r, unless the gradient of r_net is wanted.
func (s segment) backward(want wanted) (flops float64) {
	below := s.inputWanted(want) // whether the layer's input needs a gradient
	for i := range s.NLayer {
		in := func(name string) bool { return want(fmt.Sprintf("layers.%d.%s", i, name)) }
		if below || slices.ContainsFunc(layerTensors, in) {
			flops += s.layerBackward(in, below)
			below = true
		}
	}
	return flops + s.vocabularyBackward(want, below)
}

var layerTensors = []string{
	"dec_attn.qkv_net.weight", "dec_attn.r_net.weight", "dec_attn.o_net.weight",
	"dec_attn.layer_norm.weight", "dec_attn.layer_norm.bias",
	"pos_ff.CoreNet.0.weight", "pos_ff.CoreNet.0.bias", "pos_ff.CoreNet.3.weight",
	"pos_ff.CoreNet.3.bias",
	"pos_ff.layer_norm.weight", "pos_ff.layer_norm.bias",
}

// layerBackward counts the backward operations of one layer. The parameter `below` is true if the
// layer's input needs a gradient.
func (s segment) layerBackward(want wanted, below bool) float64 {
	D, hd, rows, distances := s.DModel, s.heads(), s.rows*s.batch, s.memory+s.rows
	// pair is the cost of one product of queries with keys, values or r.
	pair := product(s.pairs(0)*s.batch, hd, 1)
	first, second, o := product(rows, s.inner(), D), product(rows, D, s.DInner),
		product(rows, D, hd)

	// gradients of the probabilities, and of the queries for keys and for r
	flops := first + second + o + 3*pair
	if below {
		flops += product(rows, 3*hd, D)
	}
	qkv, keys, pairs := want("dec_attn.qkv_net.weight"), rows, s.pairs(s.memory)
	if qkv && !s.staleKeys { // The memory's keys and values need gradients, too.
		keys, pairs = distances*s.batch, s.pairs(0)
	}
	flops += 2 * product(pairs*s.batch, hd, 1)
	if qkv {
		flops += product(rows, hd, D) + product(keys, 2*hd, D)
	}
	if want("dec_attn.r_net.weight") {
		flops += product(distances, hd, D) + pair
	}
	for name, work := range map[string]float64{"dec_attn.o_net.weight": o,
		"pos_ff.CoreNet.0.weight": first, "pos_ff.CoreNet.3.weight": second} {
		if want(name) {
			flops += work
		}
	}
	return flops
}
