package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// advance moves the window forward by the given number of rows. s.mlen is the number of memory rows
// afterwards.
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

// moveDown moves the s.mlen memory rows of layer i, which begin at row from, to the beginning of
// the buffers. It skips keys and values that will be recomputed.
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
// i. This is necessary if their fast weights may have changed.
func (s *Segment) keysMoved(i int) bool {
	ix := s.model.Layout.layers[i]
	return !s.reuse.StaleKeys && (s.fastOf(ix.qkv) != nil ||
		s.cfg.PreLNorm && (s.fastOf(ix.gain1) != nil || s.fastOf(ix.bias1) != nil))
}

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

// projectPositions computes r = r_net(R) of layer i for every distance in the segment. If r_net has
// no fast weights, rows that were computed earlier are kept.
func (s *Segment) projectPositions(x *Exec, i int) {
	l, r := &s.layers[i], s.model.Layout.layers[i].r
	if l.moving || s.fastOf(r) != nil {
		l.distances = 0
	}
	l.moving = s.fastOf(r) != nil
	s.reachDistances(x, i, r, s.mlen+s.T)
}

// reachDistances computes r of layer i for at least `want` distances, unless these are already
// computed. t is the tensor of r_net's weights.
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

func (s *Segment) positions() kernel.Matrix { return s.byDistance(s.pos, s.cfg.DModel) }

// byDistance returns the rows of buf for the distances of this segment, m+T-1 down to 0. buf has a
// row for each distance from MemLen+T-1 down to 0. The distance between query i and key j is in row
// j + T-1-i of the result.
func (s *Segment) byDistance(buf []float32, width int) kernel.Matrix {
	return rowsOf(buf, s.cfg.MemLen-s.mlen, s.cfg.maxKeys(s.T), width)
}
