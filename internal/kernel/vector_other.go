//go:build !amd64 || noasm

package kernel

func expSum(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	expGo(dst, src, scale, shift, lanes)
}

func raise(x []float32, lanes *[8]float32)     { raiseGo(x, lanes) }
func dot(a, b []float32, lanes *[8]float32)    { dotGo(a, b, lanes) }
func axpy(y []float32, a float32, x []float32) { axpyGo(y, a, x) }
func scaleRow(x []float32, a float32)          { scaleRowGo(x, a) }
func add(dst, a, b []float32)                  { addGo(dst, a, b) }
func relu(dst, x []float32)                    { reluGo(dst, x) }
func reluBackward(dst, d, x []float32)         { reluBackwardGo(dst, d, x) }

func softmaxBackward(d, prob []float32, dot, scale float32) { softmaxBackwardGo(d, prob, dot, scale) }

func sum(x []float32, lanes *[8]float64)                   { sumGo(x, lanes) }
func squares(x []float32, mean float64, lanes *[8]float64) { squaresGo(x, mean, lanes) }

func normalize(y, x, gain, bias []float32, mean, rstd float32) {
	normalizeGo(y, x, gain, bias, mean, rstd)
}

func normDots(dy, x, gain []float32, mean, rstd float32, lanes *[16]float64) {
	normDotsGo(dy, x, gain, mean, rstd, lanes)
}

func normBackward(dx, dy, x, gain []float32, mean, rstd, meanG, meanGX float32) {
	normBackwardGo(dx, dy, x, gain, mean, rstd, meanG, meanGX)
}

func normGain(dgain, dy, x []float32, mean, rstd float32) { normGainGo(dgain, dy, x, mean, rstd) }

func widen(dst []float32, src []uint16)    { widenGo(dst, src) }
func addWiden(dst []float32, src []uint16) { addWidenGo(dst, src) }
