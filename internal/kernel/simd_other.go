//go:build !amd64 || noasm

package kernel

// There is no assembly for this machine, or it is switched off by the build tag.

const (
	haveSIMD = false
	fewRows  = 0
	fewCols  = 16
)

func setSIMD(bool) {}

func packRows(dst, src, add []float32, stride, n, k int) { packRowsGo(dst, src, add, stride, n, k) }
func packCols(dst, src, add []float32, stride, n, k int) { packColsGo(dst, src, add, stride, n, k) }
func prefetch([]float32, int)                            {}
func packLeft(dst, src []float32, stride, rows, k int)   { packLeftGo(dst, src, stride, rows, k) }

func fewTile(rows, k int, a []float32, row int, b []float32, width int, c []float32, stride int, acc bool) int {
	panic("no assembly")
}

func sumRows(dst, src, add []float32, stride, width, k int) { panic("no assembly") }
