package kernel

// multiplyBF16 computes rows i0 to i1-1 and columns j0 to j1-1 of C in bfloat16 precision.
func (e *engine) multiplyBF16(p *product, i0, i1, j0, j1 int) {
	e.alloc()
	s, a, b := e.bf16, linesOf(p.a, !p.transA), linesOf(p.b, p.transB)
	for k0 := 0; k0 < p.k; k0 += bf16BlockK {
		k := min(bf16BlockK, p.k-k0)
		steps := (k + tileK - 1) / tileK
		for i := i0; i < i1; i += panelLines {
			at := (i - i0) / panelLines * steps * 2 * tileWords
			s.packPanel(e.vectors, s.left[at:], &a, i, k0, min(panelLines, i1-i), k, false)
		}
		for j := j0; j < j1; j += panelLines {
			cols := min(panelLines, j1-j)
			s.packPanel(e.vectors, s.right[:], &b, j, k0, cols, k, true)
			s.tiles(i1-i0, cols, steps, p.c.Data[i0*p.c.Stride+j:], p.c.Stride, p.acc || k0 > 0)
		}
	}
}
