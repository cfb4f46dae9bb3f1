package kernel

// multiplyBF16 computes rows i0 to i1-1 and columns j0 to j1-1 of C in bfloat16 precision.
func (e *engine) multiplyBF16(p *product, i0, i1, j0, j1 int) {
	e.alloc()
	s, a, b := e.bf16, linesOf(p.a, !p.transA), linesOf(p.b, p.transB)
	for k0 := 0; k0 < p.k; k0 += bf16BlockK {
		k := min(bf16BlockK, p.k-k0)
		steps := (k + tileK - 1) / tileK
		s.pack(e.vectors, s.left[:], &a, i0, k0, i1-i0, k, false)
		for j := j0; j < j1; j += panelLines {
			cols := min(panelLines, j1-j)
			s.pack(e.vectors, s.right[:], &b, j, k0, cols, k, true)
			s.tiles(i1-i0, cols, steps, p.c.Data[i0*p.c.Stride+j:], p.c.Stride, p.acc || k0 > 0)
		}
	}
}
