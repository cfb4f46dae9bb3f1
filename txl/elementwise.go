package txl

// eachRow applies t in parallel to the rows with index at least `from` and below `to`. It stores
// the task in the segment, because this avoids an allocation.
func (s *Segment) eachRow(x *Exec, t rowTask, from, to int) {
	s.rows = rowPass{t, from, to}
	x.Parallel((to-from+rowBlock-1)/rowBlock, &s.rows)
}

func (s *Segment) eachCol(x *Exec, t colTask, width int) {
	block := max(colBlock, (width+x.Threads()-1)/x.Threads())
	s.cols = colPass{t, width, block}
	x.Parallel((width+block-1)/block, &s.cols)
}

func (s *Segment) addBias(x *Exec, y, bias []float32, width, from, to int) {
	s.pass.bias = biasPass{y, bias, width}
	s.eachRow(x, &s.pass.bias, from, to)
}

func (s *Segment) add(x *Exec, sum, a, b []float32, width, from, to int) {
	s.pass.add = addPass{sum, a, b, width}
	s.eachRow(x, &s.pass.add, from, to)
}

// sumRows sets sum[j] to the sum of column j of dy over all rows. A nil sum is skipped.
func (s *Segment) sumRows(x *Exec, sum, dy []float32, rows int) {
	s.sumColumns(x, sum, dy, len(sum), rows, false)
}

// sumColumns sets sum[j] to the sum of column j of dy [rows,width]. If acc is true, it adds to the
// old sum[j]. A nil sum is skipped.
func (s *Segment) sumColumns(x *Exec, sum, dy []float32, width, rows int, acc bool) {
	if sum == nil {
		return
	}
	s.pass.sum = sumPass{sum, dy, rows, width, acc}
	s.eachCol(x, &s.pass.sum, len(sum))
}

// layerNorm normalizes the rows of `in` with index at least `from` and below `to`, and writes them
// to y. gain and bias are indices of tensors.
func (s *Segment) layerNorm(x *Exec, n norm, y, in []float32, gain, bias, from, to int) {
	s.pass.norm = normPass{n, y, in, s.effective[gain], s.effective[bias]}
	s.eachRow(x, &s.pass.norm, from, to)
}

// layerNormBackward computes dx (rows 0 to rows-1 of [*,D]) from dy and the input of the forward
// pass. It also computes the gradients of gain and bias that grads asks for. dx may be dy.
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
