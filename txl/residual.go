package txl

// residualPass is the last step of attention or of feed-forward:
//
//	sum = residual + drop(branch + bias)     without bias if bias is nil
//	normed = LN(sum)                         if norm is not nil
//
// It overwrites branch; sum may be branch.
type residualPass struct {
	width                        int
	branch, residual, sum        []float32
	bias                         []float32
	normed, normGain, normOffset []float32
	norm                         *norm
	drop                         *Dropout
	site, layer                  int
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
