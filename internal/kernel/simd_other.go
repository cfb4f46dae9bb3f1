//go:build !amd64 || noasm

package kernel

// There is no assembly for this machine, or it is switched off by the build tag.

const haveSIMD = false

func setSIMD(bool) {}

func packRows(dst, src, add []float32, stride, n, k int) { packRowsGo(dst, src, add, stride, n, k) }
func packCols(dst, src, add []float32, stride, n, k int) { packColsGo(dst, src, add, stride, n, k) }
func packLeft(dst, src []float32, stride, rows, k int)   { packLeftGo(dst, src, stride, rows, k) }
func prefetch([]float32, int)                            {}
