//go:build !linux && !noasm

package kernel

import (
	"errors"
	"runtime"
)

// kernelAMX is never used on this system.
var kernelAMX bf16Kernel

func permitTiles() error { return errors.New("this is " + runtime.GOOS) }
