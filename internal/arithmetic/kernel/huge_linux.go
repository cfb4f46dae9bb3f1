package kernel

import (
	"syscall"
	"unsafe"
)

// hugePage is the size in bytes of a huge page on amd64, and on arm64 with base pages of 4 KiB.
const hugePage = 2 << 20

// adviseHuge requests huge pages for x; call it before writing to x. Most Linux systems grant the
// request ("madvise" in /sys/kernel/mm/transparent_hugepage/enabled). A refusal has no effect.
func adviseHuge(x []float32) {
	if len(x) == 0 {
		return
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
	first := int(-uintptr(unsafe.Pointer(&x[0])) & (hugePage - 1))
	if whole := (len(bytes) - first) / hugePage * hugePage; whole > 0 {
		_ = syscall.Madvise(bytes[first:first+whole], syscall.MADV_HUGEPAGE)
	}
}
