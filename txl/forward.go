package txl

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/kernel"
)

// Begin starts a segment at the given weights and memory, both only read and
// kept by reference until the next Begin. fast may be empty (static model).
func (s *Segment) Begin(x *Exec, m *Model, fast Fast, mem *Memory) {
	s.model, s.fast, s.mlen, s.n = m, fast, mem.Len, 0
	s.addVectors()
	D := s.cfg.DModel
	for i := range s.layers {
		copy(s.layers[i].in, mem.Layers[i][:s.mlen*s.B*D])
		s.projectMemory(x, i)
		s.projectPositions(x, i)
	}
}

// Continue starts the next segment behind the rows so far, at the weights of Begin. The result
// is that of Remember and of Begin with that memory, bit for bit. The fast weights may have
// changed their values. A layer whose keys, values and positions have no fast weights keeps
// what it has computed.
func (s *Segment) Continue(x *Exec) {
	s.addVectors()
	total, before := s.mlen+s.n, s.mlen
	s.mlen, s.n = min(s.cfg.MemLen, total), 0
	drop := total - s.mlen
	keep := func(buf []float32, width int) { copy(buf, buf[drop*s.B*width:total*s.B*width]) }
	for i := range s.layers {
		l, ix := &s.layers[i], s.model.Layout.layers[i]
		keep(l.in, s.cfg.DModel)
		if s.fastOf(ix.qkv) != nil || s.cfg.PreLNorm && (s.fastOf(ix.gain1) != nil || s.fastOf(ix.bias1) != nil) {
			s.projectMemory(x, i)
		} else {
			keep(l.kv, 2*s.cfg.NHead*s.cfg.DHead)
			if s.cfg.PreLNorm {
				keep(l.cn, s.cfg.DModel)
				keep(l.norm1.mean, 1)
				keep(l.norm1.rstd, 1)
			}
		}
		if s.mlen != before || s.fastOf(ix.r) != nil {
			s.projectPositions(x, i)
		}
	}
}

// projectMemory sets layer i's keys and values for the rows of memory.
func (s *Segment) projectMemory(x *Exec, i int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	if s.mlen == 0 {
		return
	}
	D, hd, keys := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead, s.mlen*s.B
	if s.cfg.PreLNorm {
		s.layerNorm(x, &l.norm1, l.cn, l.in, ix.gain1, ix.bias1, 0, keys)
	}
	x.MulNT(kernel.Mat(l.kv[:keys*2*hd], keys, 2*hd), kernel.Mat(s.keyInput(l), keys, D), s.weight(ix.qkv).RowRange(hd, 3*hd), false)
}

// projectPositions sets layer i's r = r_net(R) for every distance the segment can meet.
func (s *Segment) projectPositions(x *Exec, i int) {
	x.MulNT(s.byDistance(s.layers[i].r), s.positions(), s.weight(s.model.Layout.layers[i].r), false)
}

// addVectors forms the effective vectors W+M once a segment; the sum W+M of a matrix is formed
// while a product packs it.
func (s *Segment) addVectors() {
	off := 0
	for i, t := range s.model.Layout.Tensors {
		w := s.model.Tensor(i)
		if f := s.fastOf(i); f != nil && !t.IsMatrix() {
			sum := s.vecs[off : off+t.Size]
			for j := range sum {
				sum[j] = w[j] + f[j]
			}
			w = sum
		}
		if !t.IsMatrix() {
			off += t.Size
		}
		s.vec[i] = w
	}
}

// Len is the number of rows so far.
func (s *Segment) Len() int { return s.n }

// Extend appends len(tokens)/B rows: tokens is [k,B], ids below the
// vocabulary's size.
func (s *Segment) Extend(x *Exec, tokens []int32) {
	n0, n1 := s.n, s.n+len(tokens)/s.B
	if len(tokens)%s.B != 0 || n1 > s.T {
		panic(fmt.Sprintf("txl: %d tokens extend a segment of %d rows, batch %d, expected whole rows and at most %d", len(tokens), n0, s.B, s.T))
	}
	if n0 == n1 {
		return
	}
	copy(s.toks[n0*s.B:], tokens)
	s.n, s.exec = n1, x
	s.embed(x, n0, n1)
	for i := range s.layers {
		s.attend(x, i, n0, n1)
		s.feedForward(x, i, n0, n1)
	}
	s.project(x, n0, n1)
}

// Remember sets mem to the memory after this segment: for each layer the last
// MemLen rows of [memory; input]. mem may be the memory the segment began with.
func (s *Segment) Remember(mem *Memory) {
	width := s.B * s.cfg.DModel
	total := s.mlen + s.n
	mem.Len = min(s.cfg.MemLen, total)
	for i := range s.layers {
		copy(mem.Layers[i], s.layers[i].in[(total-mem.Len)*width:total*width])
	}
}

// Hidden is the output of the last layer for the rows so far, [n*B,D].
func (s *Segment) Hidden() []float32 { return s.hidden[:s.n*s.B*s.cfg.DModel] }
