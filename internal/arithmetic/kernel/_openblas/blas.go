package main

/*
#cgo pkg-config: openblas
#include <cblas.h>
*/
import "C"

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

func setThreads(n int) { C.openblas_set_num_threads(C.int(n)) }

func version() string { return C.GoString(C.openblas_get_config()) }

// gemm sets c = op(a) op(b). op(a) is the transpose of a if transA is set, else a. The same holds
// for b and transB.
func gemm(c, a, b kernel.Matrix, transA, transB bool) {
	m, n, k := c.Rows, c.Cols, a.Cols
	if transA {
		k = a.Rows
	}
	C.cblas_sgemm(C.CblasRowMajor, trans(transA), trans(transB), C.int(m), C.int(n), C.int(k),
		1, (*C.float)(&a.Data[0]), C.int(a.Stride), (*C.float)(&b.Data[0]), C.int(b.Stride),
		0, (*C.float)(&c.Data[0]), C.int(c.Stride))
}

func trans(t bool) C.enum_CBLAS_TRANSPOSE {
	if t {
		return C.CblasTrans
	}
	return C.CblasNoTrans
}
