//go:build !amd64 || noasm

package kernel

import (
	"fmt"
	"runtime"
)

// kernelsBF16 says why there is no kernel for bf16.
func kernelsBF16() ([]bf16Kernel, error) {
	return nil, fmt.Errorf("this is %s/%s, or a program built without assembly", runtime.GOOS,
		runtime.GOARCH)
}
