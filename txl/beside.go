package txl

import "slices"

// Two networks of the same slow weights W compute the same, bits included, below the first tensor
// whose fast weights differ. A segment beside another one takes from it what is the same, and
// computes the rest. Halves of layers are counted from the bottom: layer i's attention is 2i, its
// feed-forward 2i+1, the embedding -1, and the softmax 2 NLayer.

// wholeNetwork is the first half of a network that has nothing to take.
const wholeNetwork = -1

// NewBeside allocates a segment that computes, with other fast weights, what another one computes,
// for scoring alone: it has no Backward. Its calls follow those of the other, which has to have
// begun at the same model, and to have the same rows. Then its bits are those of a segment of its
// own. It neither reads nor writes the memory of layers whose input is the same.
func NewBeside(of *Segment) *Segment {
	return (&Segment{cfg: of.cfg, B: of.B, T: of.T, of: of, first: wholeNetwork}).allocate()
}

// BesideBytes is the memory of a segment beside one of SegmentBytes, but for a part that does not
// count.
func BesideBytes(c Config, batch, maxLen int) int64 {
	of := &Segment{cfg: c, B: batch, T: maxLen}
	return (&Segment{cfg: c, B: batch, T: maxLen, of: of}).bytes()
}

// LayersAlike is how many layers, from the bottom, have the same input, and so the same memory, in
// two networks whose fast weights differ in the tensors that differs tells.
func (m *Model) LayersAlike(differs func(tensor int) bool) int {
	return min(m.Config.NLayer, m.Layout.firstHalf(m.Config.PreLNorm, differs)>>1+1)
}

// firstHalf is the lowest half of a layer whose result is another one if some tensors differ.
func (l *Layout) firstHalf(preLNorm bool, differs func(tensor int) bool) int {
	any := func(tensors ...int) bool { return slices.ContainsFunc(tensors, differs) }
	for _, k := range l.clusters {
		if any(k.emb) || k.proj != none && any(k.proj) {
			return wholeNetwork
		}
	}
	for i, t := range l.layers {
		// What comes out of attention is normalised for the feed-forward.
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

// part finds where the segment and the one that it is beside part.
func (s *Segment) part() {
	if s.of.model != s.model || s.of.mlen != s.mlen {
		panic("txl: a segment begins beside one of another model or memory")
	}
	s.first = s.model.Layout.firstHalf(s.cfg.PreLNorm, func(tensor int) bool {
		a, b := s.fastOf(tensor), s.of.fastOf(tensor)
		return len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
	})
}

// attends tells whether the segment computes layer i's attention.
func (s *Segment) attends(i int) bool { return 2*i >= s.first }

// firstMemory is the first layer that the segment has a memory of its own of.
func (s *Segment) firstMemory() int { return s.first>>1 + 1 }

// takeMemory makes the memory the first rows of the layers' inputs.
func (s *Segment) takeMemory(mem *Memory) {
	size := s.mlen * s.B * s.cfg.DModel
	for i := s.firstMemory(); i < len(s.layers); i++ {
		copy(s.layers[i].in, mem.Layers[i][:size])
	}
	if i := s.first / 2; s.first >= 0 && i < len(s.layers) && s.attends(i) {
		copy(s.layers[i].in, s.of.layers[i].in[:size])
	}
}

// takeRows takes rows n0..n1 of the input of the first half.
func (s *Segment) takeRows(n0, n1 int) {
	if s.of.n < n1 {
		panic("txl: a segment is extended before the one that it is beside")
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
