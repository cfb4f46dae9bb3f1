//go:build !amd64 || noasm

package kernel

import (
	"fmt"
	"runtime"
)

// There is no assembly for this machine, or it is switched off by the build tag: every function is
// the portable one.

// detect returns the widest set of instructions that this machine has.
func detect() Instructions { return Portable }

// kernelsBF16 says why there is no kernel for bf16.
func kernelsBF16() ([]bf16Kernel, error) {
	return nil, fmt.Errorf("this is %s/%s, or a program built without assembly", runtime.GOOS, runtime.GOARCH)
}

func (Instructions) micro() *microKernel { return &portable }
func (Instructions) fewRows() int        { return 0 }

func (Vectors) expSum(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	expGo(dst, src, scale, shift, lanes)
}

func (Vectors) raise(x []float32, lanes *[8]float32)     { raiseGo(x, lanes) }
func (Vectors) dot(a, b []float32, lanes *[8]float32)    { dotGo(a, b, lanes) }
func (Vectors) axpy(y []float32, a float32, x []float32) { axpyGo(y, a, x) }
func (Vectors) scaleRow(x []float32, a float32)          { scaleRowGo(x, a) }
func (Vectors) add(dst, a, b []float32)                  { addGo(dst, a, b) }
func (Vectors) relu(dst, x []float32)                    { reluGo(dst, x) }
func (Vectors) reluBackward(dst, d, x []float32)         { reluBackwardGo(dst, d, x) }
func (Vectors) gelu(dst, x []float32)                    { geluGo(dst, x) }
func (Vectors) geluBackward(dst, d, x []float32)         { geluBackwardGo(dst, d, x) }

func (Vectors) softmaxBackward(d, prob []float32, dot, scale float32) {
	softmaxBackwardGo(d, prob, dot, scale)
}

func (Vectors) sum(x []float32, lanes *[8]float64)                   { sumGo(x, lanes) }
func (Vectors) squares(x []float32, mean float64, lanes *[8]float64) { squaresGo(x, mean, lanes) }

func (Vectors) normalize(y, x, gain, bias []float32, mean, rstd float32) {
	normalizeGo(y, x, gain, bias, mean, rstd)
}

func (Vectors) normDots(dy, x, gain []float32, mean, rstd float32, lanes *[16]float64) {
	normDotsGo(dy, x, gain, mean, rstd, lanes)
}

func (Vectors) normBackward(dx, dy, x, gain []float32, mean, rstd, meanG, meanGX float32) {
	normBackwardGo(dx, dy, x, gain, mean, rstd, meanG, meanGX)
}

func (Vectors) normGain(dgain, dy, x []float32, mean, rstd float32) {
	normGainGo(dgain, dy, x, mean, rstd)
}

func (Vectors) widen(dst []float32, src []uint16)    { widenGo(dst, src) }
func (Vectors) addWiden(dst []float32, src []uint16) { addWidenGo(dst, src) }

func (Vectors) dotRows(dst, x, w []float32, n, stride int) bool { return false }
func (Vectors) axpyRows(y, a, x []float32) bool                 { return false }
func (Vectors) log(dst, src []float32) int                      { return 0 }
func (Vectors) adam(a *Adam, w, m, v, g []float32) (n int)      { return 0 }
func (Vectors) adapt(a *Adaptation) (n, written int)            { return 0, 0 }

func (Vectors) packRows(dst, src, add []float32, stride, width, n, k int) {
	packRowsGo(dst, src, add, stride, width, n, k)
}

func (Vectors) addTransposed(dst, src []float32, stride, width, n, k int) {
	addTransposedGo(dst, src, stride, width, n, k)
}

func (Vectors) packCols(dst, src, add []float32, stride, width, n, k int) {
	packColsGo(dst, src, add, stride, width, n, k)
}

func (Vectors) packLeft(dst, src []float32, stride, height, rows, k int) {
	packLeftGo(dst, src, stride, height, rows, k)
}

func (Vectors) prefetch([]float32, int) {}

func (Vectors) fewTile(rows, k int, a []float32, row int, b []float32, width int, c []float32, stride int, acc bool) int {
	panic("no assembly")
}

func (Vectors) sumRows(dst, src, add []float32, stride, width, k int) { panic("no assembly") }

func (Vectors) pairsAlong(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	pairsAlongGo(dst, src, add, stride, n, k)
}

func (Vectors) pairsAcross(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	pairsAcrossGo(dst, src, add, stride, n, k)
}

func (Vectors) transposeTile(dst, src *[tileWords]uint32) { transposeTileGo(dst, src) }

func (Vectors) runPeak(rounds int) int {
	var chains [peakChains]float32
	peakGo(rounds, &chains)
	return 1
}

func (Vectors) peakName() string { return peakNameGo }

func (Vectors) regroup(tile *[tileWords]uint32, right bool) { regroupGo(tile, right) }
