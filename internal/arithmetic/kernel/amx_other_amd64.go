//go:build !linux && !noasm

package kernel

import (
	"errors"
	"runtime"
)

// kernelAMX is never used on this system.
var kernelAMX bf16Kernel

// permitTiles returns an error with the reason why tiles cannot be used.
func permitTiles() error { return errors.New("this is " + runtime.GOOS) }
