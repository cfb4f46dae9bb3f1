package txl

import "slices"

// Two networks with the same slow weights compute the same bits up to the first tensor with
// different fast weights. A segment from NewBeside copies these results from its partner and
// computes only the rest. Half-layers are counted from the bottom: layer i's attention is 2i, its
// feed-forward network 2i+1, the embedding -1, and the softmax 2 NLayer.

// wholeNetwork is the value of Segment.first for a segment that computes the whole network.
const wholeNetwork = -1

// NewBeside allocates a segment that scores the same rows as the segment `of`, its partner, with
// different fast weights. It has no Backward. Each call must follow the same call on the partner,
// with the same model and rows. The results have the same bits as those of an independent segment.
// The segment neither reads nor writes the memory of layers whose input is the same in both
// networks.
func NewBeside(of *Segment) *Segment {
	return (&Segment{cfg: of.cfg, B: of.B, T: of.T, of: of, first: wholeNetwork}).allocate()
}

// BesideBytes returns the approximate memory in bytes of a segment from NewBeside. It excludes the
// partner's memory; see SegmentBytes.
func BesideBytes(c Config, batch, maxLen int) int64 {
	of := &Segment{cfg: c, B: batch, T: maxLen}
	return (&Segment{cfg: c, B: batch, T: maxLen, of: of}).bytes()
}

// LayersAlike returns the number of layers, from the bottom, that have the same input and memory in
// two networks. differs reports whether a tensor has different fast weights in the networks.
func (m *Model) LayersAlike(differs func(tensor int) bool) int {
	return min(m.Config.NLayer, m.Layout.firstHalf(m.Config.PreLNorm, differs)>>1+1)
}

// firstHalf returns the lowest half-layer whose result differs between two networks. differs
// reports whether a tensor has different fast weights in the networks.
func (l *Layout) firstHalf(preLNorm bool, differs func(tensor int) bool) int {
	any := func(tensors ...int) bool { return slices.ContainsFunc(tensors, differs) }
	for _, k := range l.clusters {
		if any(k.emb) || k.proj != none && any(k.proj) {
			return wholeNetwork
		}
	}
	for i, t := range l.layers {
		// Without pre-norm, gain1 and bias1 normalize the output of attention. With pre-norm, gain2
		// and bias2 do.
		switch {
		case any(t.rwBias, t.rrBias, t.qkv, t.r, t.o, t.gain1, t.bias1),
			preLNorm && any(t.gain2, t.bias2):
			return 2 * i
		case any(t.w1, t.b1, t.w2, t.b2, t.gain2, t.bias2):
			return 2*i + 1
		}
	}
	return 2 * len(l.layers)
}

// part sets s.first to the lowest half-layer in which the segment and its partner differ.
func (s *Segment) part() {
	if s.of.model != s.model || s.of.mlen != s.mlen {
		panic("txl: two parallel segments have different models or memories")
	}
	s.first = s.model.Layout.firstHalf(s.cfg.PreLNorm, func(tensor int) bool {
		a, b := s.fastOf(tensor), s.of.fastOf(tensor)
		return len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
	})
}

func (s *Segment) attends(i int) bool { return 2*i >= s.first }

// firstMemory returns the lowest layer for which the segment has a separate memory.
func (s *Segment) firstMemory() int { return s.first>>1 + 1 }

// takeMemory copies the memory to the first rows of the layers' inputs.
func (s *Segment) takeMemory(mem *Memory) {
	size := s.mlen * s.B * s.cfg.DModel
	for i := s.firstMemory(); i < len(s.layers); i++ {
		copy(s.layers[i].in, mem.Layers[i][:size])
	}
	if i := s.first / 2; s.first >= 0 && i < len(s.layers) && s.attends(i) {
		copy(s.layers[i].in, s.of.layers[i].in[:size])
	}
}

// takeRows copies rows n0 to n1-1 of the input of the lowest computed half-layer from the partner.
func (s *Segment) takeRows(n0, n1 int) {
	if s.of.n < n1 {
		panic("txl: a segment is extended before the segment that it follows")
	}
	i := s.first / 2
	take := func(to, from []float32) {
		width := s.B * s.cfg.DModel
		copy(to[n0*width:n1*width], from[n0*width:])
	}
	if s.first%2 == 0 {
		take(s.output(i-1), s.of.output(i-1))
		return
	}
	take(s.layers[i].x, s.of.layers[i].x)
	if s.cfg.PreLNorm {
		take(s.layers[i].y1, s.of.layers[i].y1)
	}
}
