package main

/*
#cgo pkg-config: openblas
#include <cblas.h>

// peak runs n rounds of 12 independent chains of fused multiply-adds, 8 wide.
static void peak(long n) {
	__asm__ volatile(
		"1:\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm0\n vfmadd231ps %%ymm15, %%ymm14, %%ymm1\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm2\n vfmadd231ps %%ymm15, %%ymm14, %%ymm3\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm4\n vfmadd231ps %%ymm15, %%ymm14, %%ymm5\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm6\n vfmadd231ps %%ymm15, %%ymm14, %%ymm7\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm8\n vfmadd231ps %%ymm15, %%ymm14, %%ymm9\n"
		"vfmadd231ps %%ymm15, %%ymm14, %%ymm10\n vfmadd231ps %%ymm15, %%ymm14, %%ymm11\n"
		"dec %0\n jnz 1b\n vzeroupper\n"
		: "+r"(n) : : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		"xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
}
*/
import "C"

import "github.com/lmserve/lmserve/internal/kernel"

func setThreads(n int) { C.openblas_set_num_threads(C.int(n)) }

// version names OpenBLAS and the kernels it has chosen.
func version() string { return C.GoString(C.openblas_get_config()) }

// gemm sets c = op(a) op(b): c (m,n) over k.
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

// peakFlops is the operations of peak(n).
func peakFlops(n int) float64 {
	C.peak(C.long(n))
	return float64(n) * 12 * 16
}
