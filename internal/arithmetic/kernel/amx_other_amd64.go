//go:build !linux && !noasm

package kernel

import (
	"errors"
	"runtime"
)

// kernelAMX is never in use here.
var kernelAMX bf16Kernel

// permitTiles says why there are no tiles.
func permitTiles() error { return errors.New("this is " + runtime.GOOS) }
