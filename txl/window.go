package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// advance moves the window forward by a number of rows. The window then begins with s.mlen rows of
// memory.
func (s *Segment) advance(by int) {
	at := s.at + by
	if at+s.cfg.maxKeys(s.T) > s.keyedRows() {
		for i := range s.layers {
			if s.attends(i) {
				s.moveDown(i, at)
			}
		}
		at = 0
	}
	s.show(at)
}

// moveDown moves the memory's rows of layer i from row `from` to the beginning. It skips keys and
// values that will be recomputed.
func (s *Segment) moveDown(i, from int) {
	k := &s.layers[i].all
	move := func(buf []float32, width int) {
		copy(buf, buf[from*s.B*width:][:s.mlen*s.B*width])
	}
	move(k.in, s.cfg.DModel)
	if s.keysMoved(i) {
		return
	}
	move(k.kv, 2*s.cfg.NHead*s.cfg.DHead)
	if s.cfg.PreLNorm {
		move(k.cn, s.cfg.DModel)
		move(k.mean, 1)
		move(k.rstd, 1)
	}
}

// keysMoved reports whether the next segment must recompute the memory's keys and values in layer
// i, because their fast weights may have changed.
func (s *Segment) keysMoved(i int) bool {
	ix := s.model.Layout.layers[i]
	return !s.reuse.StaleKeys && (s.fastOf(ix.qkv) != nil ||
		s.cfg.PreLNorm && (s.fastOf(ix.gain1) != nil || s.fastOf(ix.bias1) != nil))
}

// projectMemory computes layer i's keys and values for the rows of memory.
func (s *Segment) projectMemory(x *Exec, i int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	if s.mlen == 0 {
		return
	}
	D, hd, keys := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead, s.mlen*s.B
	if s.cfg.PreLNorm {
		s.layerNorm(x, l.norm1, l.cn, l.in, ix.gain1, ix.bias1, 0, keys)
	}
	x.MulNT(rowsOf(l.kv, 0, keys, 2*hd), rowsOf(s.keyInput(l), 0, keys, D),
		s.weight(ix.qkv).RowRange(hd, 3*hd), false)
}

// projectPositions computes layer i's r = r_net(R) for every distance in the segment. Without fast
// weights, it keeps the distances that are already computed.
func (s *Segment) projectPositions(x *Exec, i int) {
	l, r := &s.layers[i], s.model.Layout.layers[i].r
	if l.moving || s.fastOf(r) != nil {
		l.distances = 0
	}
	l.moving = s.fastOf(r) != nil
	s.reachDistances(x, i, r, s.mlen+s.T)
}

// reachDistances computes layer i's r, whose weights are tensor t, for at least `want` distances.
func (s *Segment) reachDistances(x *Exec, i, t, want int) {
	l := &s.layers[i]
	D, hd := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead
	if l.distances >= want {
		return
	}
	all := s.cfg.maxKeys(s.T)
	lo, hi := all-want, all-l.distances
	x.MulNT(rowsOf(l.r, lo, hi, hd), rowsOf(s.pos, lo, hi, D), s.weight(t), false)
	l.distances = want
}

// positions returns R for this segment's distances, m+T-1 ... 0.
func (s *Segment) positions() kernel.Matrix { return s.byDistance(s.pos, s.cfg.DModel) }

// byDistance returns this segment's rows, m+T-1 ... 0, of a buffer with a row for each distance
// from MemLen+T-1 down to 0. Query i meets key j at row j + T-1-i.
func (s *Segment) byDistance(buf []float32, width int) kernel.Matrix {
	return rowsOf(buf, s.cfg.MemLen-s.mlen, s.cfg.maxKeys(s.T), width)
}
