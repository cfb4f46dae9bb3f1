//go:build !linux && !noasm

package kernel

import (
	"errors"
	"runtime"
)

// kernelAMX is never used here.
var kernelAMX bf16Kernel

// permitTiles returns the reason why there are no tiles.
func permitTiles() error { return errors.New("this is " + runtime.GOOS) }
