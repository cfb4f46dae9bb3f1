//go:build !amd64 || noasm

package kernel

import (
	"fmt"
	"runtime"
)

func kernelsBF16() ([]bf16Kernel, error) {
	return nil, fmt.Errorf("this program, for %s/%s, was built without the assembly for amd64",
		runtime.GOOS,
		runtime.GOARCH)
}

const roundsPairs = false

func pairsAlongAVX512(*uint32, *float32, *float32, int, int) { panic("no assembly") }
func pairsAcrossAVX512(*uint32, *float32, *float32, int)     { panic("no assembly") }
