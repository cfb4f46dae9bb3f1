package txl

// eachRow processes rows from..to in parallel. The task is stored in the segment to avoid an
// allocation.
func (s *Segment) eachRow(x *Exec, t rowTask, from, to int) {
	s.rows = rowPass{t, from, to}
	x.Parallel((to-from+rowBlock-1)/rowBlock, &s.rows)
}

// eachCol processes all columns in parallel.
func (s *Segment) eachCol(x *Exec, t colTask, width int) {
	s.cols = colPass{t, width}
	x.Parallel((width+colBlock-1)/colBlock, &s.cols)
}

func (s *Segment) addBias(x *Exec, y, bias []float32, width, from, to int) {
	s.pass.bias = biasPass{y, bias, width}
	s.eachRow(x, &s.pass.bias, from, to)
}

func (s *Segment) add(x *Exec, sum, a, b []float32, width, from, to int) {
	s.pass.add = addPass{sum, a, b, width}
	s.eachRow(x, &s.pass.add, from, to)
}

// sumRows sets sum to the sums of the first columns of dy, over all rows. It does nothing if sum is
// nil.
func (s *Segment) sumRows(x *Exec, sum, dy []float32, rows int) {
	s.sumColumns(x, sum, dy, len(sum), rows, false)
}

// sumColumns sets sum to the sums of the first columns of dy [rows,width], or adds them if acc.
// It does nothing if sum is nil.
func (s *Segment) sumColumns(x *Exec, sum, dy []float32, width, rows int, acc bool) {
	if sum == nil {
		return
	}
	s.pass.sum = sumPass{sum, dy, rows, width, acc}
	s.eachCol(x, &s.pass.sum, len(sum))
}

// layerNorm sets rows from..to of y to the normalized rows of in, with the tensors gain and bias.
func (s *Segment) layerNorm(x *Exec, n norm, y, in []float32, gain, bias, from, to int) {
	s.pass.norm = normPass{n, y, in, s.effective[gain], s.effective[bias]}
	s.eachRow(x, &s.pass.norm, from, to)
}

// layerNormBackward sets dx (rows 0..rows of [*,D]; may be dy) and, if wanted, the gradients of
// gain and bias, from dy and the forward's x.
func (s *Segment) layerNormBackward(x *Exec, n norm, dx, dy, in []float32, gain, bias int,
	grads Grads, rows int) {
	if grads[gain] != nil || grads[bias] != nil {
		s.pass.normGrads = normGradsPass{
			norm: n, dgain: grads[gain], x: in, width: s.cfg.DModel,
			dbias: sumPass{sum: grads[bias], dy: dy, rows: rows, width: s.cfg.DModel},
		}
		s.eachCol(x, &s.pass.normGrads, s.cfg.DModel)
	}
	s.pass.normBackward = normBackwardPass{n, dx, dy, in, s.effective[gain]}
	s.eachRow(x, &s.pass.normBackward, 0, rows)
}
