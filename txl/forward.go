package txl

import "fmt"

// Begin starts a segment with the given weights and memory. The segment only reads them, and keeps
// references to both until the next Begin. An empty fast means a static model. Changed values of
// fast take full effect only at Continue or the next Begin.
func (s *Segment) Begin(x *Exec, m *Model, fast Fast, mem *Memory) {
	forget := !s.reuse.FixedWeights || s.model != m
	s.model, s.fast, s.mlen, s.n = m, fast, mem.Len, 0
	if s.of != nil {
		s.part()
	}
	s.addFast(x)
	s.show(0)
	s.takeMemory(mem)
	for i := range s.layers {
		if forget {
			s.layers[i].distances = 0
		}
		if s.attends(i) {
			s.projectMemory(x, i)
			s.projectPositions(x, i)
		}
	}
}

// Continue starts the next segment after the present rows, with the model and the slice of fast
// weights from Begin. The values of the fast weights may have changed. The results equal those of
// Remember followed by Begin with the new memory, bit for bit. The exception is Reuse.StaleKeys.
// Continue recomputes keys, values and positions only in layers where their fast weights may have
// changed.
func (s *Segment) Continue(x *Exec) {
	s.addFast(x)
	total := s.mlen + s.n
	s.mlen, s.n = min(s.cfg.MemLen, total), 0
	s.advance(total - s.mlen)
	for i := range s.layers {
		if !s.attends(i) {
			continue
		}
		if s.keysMoved(i) {
			s.projectMemory(x, i)
		}
		s.projectPositions(x, i)
	}
}

// Len returns the number of rows that were appended since Begin or Continue.
func (s *Segment) Len() int { return s.n }

// Extend appends len(tokens)/B rows to the segment. tokens is [k,B]; all ids are below the
// vocabulary's size.
func (s *Segment) Extend(x *Exec, tokens []int32) {
	n0, n1 := s.n, s.n+len(tokens)/s.B
	if len(tokens)%s.B != 0 || n1 > s.T {
		panic(fmt.Sprintf("txl: Extend: found %d tokens after %d rows of batch %d, expected "+
			"whole rows, and at most %d rows in all", len(tokens), n0, s.B, s.T))
	}
	if n0 == n1 {
		return
	}
	copy(s.toks[n0*s.B:], tokens)
	s.n, s.exec = n1, x
	if s.first < 0 {
		s.embed(x, n0, n1)
	} else {
		s.takeRows(n0, n1)
	}
	for i := max(0, s.first/2); i < len(s.layers); i++ {
		if s.attends(i) {
			s.attend(x, i, n0, n1)
		}
		s.feedForward(x, i, n0, n1)
	}
	s.project(x, n0, n1)
}

// Remember sets mem to the memory after this segment: for each layer in mem, the last MemLen rows
// of [memory; input]. mem may be the memory that was passed to Begin.
func (s *Segment) Remember(mem *Memory) {
	width := s.B * s.cfg.DModel
	total := s.mlen + s.n
	mem.Len = min(s.cfg.MemLen, total)
	for i := s.firstMemory(); i < len(s.layers); i++ {
		copy(mem.Layers[i], s.layers[i].in[(total-mem.Len)*width:total*width])
	}
}

// Hidden returns the output of the last layer for all n rows of the segment, [n*B,D].
func (s *Segment) Hidden() []float32 { return s.hidden[:s.n*s.B*s.cfg.DModel] }
