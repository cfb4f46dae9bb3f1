package kernel

//go:generate sh -c "cd _generate && go run . vector -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg kernel"
//go:generate sh -c "sh _generate/other.sh | gofmt > assembly_other.go"

// eights is how many of n elements the assembly takes; the rest is left to Go.
func (v Vectors) eights(n int) int {
	if v.set < AVX2 {
		return 0
	}
	return n &^ 7
}

func (v Vectors) expSum(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	n := v.eights(len(src))
	if n > 0 {
		expAVX2(&dst[0], &src[0], n, scale, shift, lanes)
	}
	expGo(dst[n:], src[n:], scale, shift, lanes)
}

func (v Vectors) raise(x []float32, lanes *[8]float32) {
	n := v.eights(len(x))
	if n > 0 {
		largestAVX2(&x[0], n, lanes)
	}
	raiseGo(x[n:], lanes)
}

func (v Vectors) dot(a, b []float32, lanes *[8]float32) {
	n := v.eights(len(a))
	if n > 0 {
		dotAVX2(&a[0], &b[0], n, lanes)
	}
	dotGo(a[n:], b[n:], lanes)
}

func (v Vectors) axpy(y []float32, a float32, x []float32) {
	n := v.eights(len(x))
	if n > 0 {
		axpyAVX2(&y[0], &x[0], n, a)
	}
	axpyGo(y[n:], a, x[n:])
}

func (v Vectors) scaleRow(x []float32, a float32) {
	n := v.eights(len(x))
	if n > 0 {
		scaleAVX2(&x[0], n, a)
	}
	scaleRowGo(x[n:], a)
}

func (v Vectors) softmaxBackward(d, prob []float32, dot, scale float32) {
	n := v.eights(len(d))
	if n > 0 {
		softmaxBackwardAVX2(&d[0], &prob[0], n, dot, scale)
	}
	softmaxBackwardGo(d[n:], prob[n:], dot, scale)
}

func (v Vectors) add(dst, a, b []float32) {
	n := v.eights(len(a))
	if n > 0 {
		addAVX2(&dst[0], &a[0], &b[0], n)
	}
	addGo(dst[n:], a[n:], b[n:])
}

func (v Vectors) relu(dst, x []float32) {
	n := v.eights(len(x))
	if n > 0 {
		reluAVX2(&dst[0], &x[0], n)
	}
	reluGo(dst[n:], x[n:])
}

func (v Vectors) reluBackward(dst, d, x []float32) {
	n := v.eights(len(x))
	if n > 0 {
		reluBackwardAVX2(&dst[0], &d[0], &x[0], n)
	}
	reluBackwardGo(dst[n:], d[n:], x[n:])
}

func (v Vectors) gelu(dst, x []float32) {
	n := v.eights(len(x))
	if n > 0 {
		geluAVX2(&dst[0], &x[0], n)
	}
	geluGo(dst[n:], x[n:])
}

func (v Vectors) geluBackward(dst, d, x []float32) {
	n := v.eights(len(x))
	if n > 0 {
		geluBackwardAVX2(&dst[0], &d[0], &x[0], n)
	}
	geluBackwardGo(dst[n:], d[n:], x[n:])
}

func (v Vectors) sum(x []float32, lanes *[8]float64) {
	n := v.eights(len(x))
	if n > 0 {
		sumAVX2(&x[0], n, lanes)
	}
	sumGo(x[n:], lanes)
}

func (v Vectors) squares(x []float32, mean float64, lanes *[8]float64) {
	n := v.eights(len(x))
	if n > 0 {
		squaresAVX2(&x[0], n, mean, lanes)
	}
	squaresGo(x[n:], mean, lanes)
}

func (v Vectors) normalize(y, x, gain, bias []float32, mean, rstd float32) {
	n := v.eights(len(x))
	if n > 0 {
		normalizeAVX2(&y[0], &x[0], &gain[0], &bias[0], n, mean, rstd)
	}
	normalizeGo(y[n:], x[n:], gain[n:], bias[n:], mean, rstd)
}

func (v Vectors) normDots(dy, x, gain []float32, mean, rstd float32, lanes *[16]float64) {
	n := v.eights(len(x))
	if n > 0 {
		normDotsAVX2(&dy[0], &x[0], &gain[0], n, mean, rstd, lanes)
	}
	normDotsGo(dy[n:], x[n:], gain[n:], mean, rstd, lanes)
}

func (v Vectors) normBackward(dx, dy, x, gain []float32, mean, rstd, meanG, meanGX float32) {
	n := v.eights(len(x))
	if n > 0 {
		normBackwardAVX2(&dx[0], &dy[0], &x[0], &gain[0], n, mean, rstd, meanG, meanGX)
	}
	normBackwardGo(dx[n:], dy[n:], x[n:], gain[n:], mean, rstd, meanG, meanGX)
}

func (v Vectors) normGain(dgain, dy, x []float32, mean, rstd float32) {
	n := v.eights(len(x))
	if n > 0 {
		normGainAVX2(&dgain[0], &dy[0], &x[0], n, mean, rstd)
	}
	normGainGo(dgain[n:], dy[n:], x[n:], mean, rstd)
}

func (v Vectors) widen(dst []float32, src []uint16) {
	n := v.eights(len(src))
	if n > 0 {
		widenAVX2(&dst[0], &src[0], n)
	}
	widenGo(dst[n:], src[n:])
}

func (v Vectors) addWiden(dst []float32, src []uint16) {
	n := v.eights(len(src))
	if n > 0 {
		addWidenAVX2(&dst[0], &src[0], n)
	}
	addWidenGo(dst[n:], src[n:])
}
