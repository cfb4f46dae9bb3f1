package txl

// residualPass is the last step of a half of a layer:
//
//	sum = residual + drop(branch + bias)     without bias if it is nil
//	normed = LN(sum)                         if there is a norm
//
// It overwrites branch; sum may be branch.
type residualPass struct {
	width                        int       // D
	branch, residual, sum        []float32 // [*,D]
	bias                         []float32 // [D]
	normed, normGain, normOffset []float32 // [*,D], [D], [D]
	norm                         *norm
	drop                         *Dropout
	site, layer                  int // these number the place of the dropout
}

func (p *residualPass) doRows(w *Exec, lo, hi int) {
	D := p.width
	for r := lo; r < hi; r++ {
		branch, sum := rowOf(p.branch, r, D), rowOf(p.sum, r, D)
		if p.bias != nil {
			w.Add(branch, branch, p.bias)
		}
		p.drop.rows(p.site, p.layer, p.branch, D, r, r+1)
		w.Add(sum, branch, rowOf(p.residual, r, D))
		if n := p.norm; n != nil {
			n.mean[r], n.rstd[r] = w.LayerNorm(rowOf(p.normed, r, D), sum, p.normGain, p.normOffset,
				LayerNormEps)
		}
	}
}
