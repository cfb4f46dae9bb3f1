package txl

import (
	"fmt"
	"slices"
)

// Backward sets grads to the gradient of the mean negative log-likelihood of targets [n,B], in
// nats. The mean is over all rows and streams. The gradient is with respect to the effective
// weights W+M, so it equals both dL/dW and dL/dM. A target below 0 has loss 0, but counts in the
// mean. grads has an entry for each tensor of the layout; for a nil entry, Backward computes no
// gradient.
func (s *Segment) Backward(x *Exec, targets []int32, grads Grads) {
	s.backward(x, targets, nil, grads)
}

// BackwardOf is Backward for the mean of another loss. dlogits [n*B,V] is the gradient of each
// row's loss with respect to the row's logits. The softmax must not be adaptive.
func (s *Segment) BackwardOf(x *Exec, targets []int32, dlogits []float32, grads Grads) {
	lay := s.model.Layout
	if want := len(targets) * lay.headWidth(); len(dlogits) != want || lay.tails() > 0 {
		panic(fmt.Sprintf("txl: BackwardOf: found %d gradients of logits, expected %d, in a "+
			"model without tails (found %d)",
			len(dlogits), want, lay.tails()))
	}
	s.backward(x, targets, dlogits, grads)
}

// backward is Backward, or BackwardOf if dlogits is not nil.
func (s *Segment) backward(x *Exec, targets []int32, dlogits []float32, grads Grads) {
	if s.of != nil {
		panic("txl: backward: the segment runs beside another segment, and so can only score")
	}
	if len(targets) != s.n*s.B || s.n == 0 {
		panic(fmt.Sprintf("txl: backward: found %d targets, expected %d, and at least one row",
			len(targets), s.n*s.B))
	}
	lay := s.model.Layout
	// layers may share these biases, and each layer adds its part of the gradient
	for _, l := range lay.layers {
		clear(grads[l.rwBias])
		clear(grads[l.rrBias])
	}
	s.clearProjections(grads)
	lowest := s.lowestHalf(grads)
	s.lossBackward(x, targets, dlogits, grads)
	s.drop.rows(siteOutput, 0, s.dx, s.cfg.DModel, 0, s.n*s.B)
	for half := 2*len(s.layers) - 1; half >= lowest && half >= 0; half-- {
		if half%2 == 1 {
			s.feedForwardBackward(x, half/2, grads)
		} else {
			s.attendBackward(x, half/2, grads, half > lowest)
		}
	}
	if lowest < 0 {
		s.embedBackward(x, grads)
	}
}

// clearProjections sets the gradients of the projections to zero, because each use of a projection
// adds its part.
func (s *Segment) clearProjections(grads Grads) {
	for i := range s.model.Layout.clusters {
		k := &s.model.Layout.clusters[i]
		if k.proj != none {
			clear(grads[k.proj])
			clear(grads[k.outProj])
		}
	}
}

// lowestHalf returns the lowest half-layer that needs a gradient, where the backward pass may stop.
// The attention of layer i is half-layer 2i, its feed-forward network 2i+1, and the embedding -1.
// The result is 2 NLayer if no layer needs a gradient.
func (s *Segment) lowestHalf(grads Grads) int {
	lay := s.model.Layout
	wanted := func(tensors ...int) bool {
		return slices.ContainsFunc(tensors, func(i int) bool { return grads[i] != nil })
	}
	for _, k := range lay.clusters {
		if wanted(k.emb) || k.proj != none && wanted(k.proj) {
			return -1
		}
	}
	for i, l := range lay.layers {
		// The backward pass of the feed-forward half includes the normalization between the halves.
		// With pre-norm, gain1 and bias1 belong to the normalization before attention.
		if wanted(l.rwBias, l.rrBias, l.qkv, l.r, l.o) || s.cfg.PreLNorm &&
			wanted(l.gain1, l.bias1) {
			return 2 * i
		}
		if wanted(l.gain1, l.bias1, l.w1, l.b1, l.w2, l.b2, l.gain2, l.bias2) {
			return 2*i + 1
		}
	}
	return 2 * len(lay.layers)
}
