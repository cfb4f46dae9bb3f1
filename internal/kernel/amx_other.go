//go:build !linux || !amd64 || noasm

package kernel

import (
	"fmt"
	"runtime"
)

// permitTiles says why there are no tiles.
func permitTiles() error {
	return fmt.Errorf("this is %s/%s, or a program built without assembly", runtime.GOOS, runtime.GOARCH)
}

// tilesAMX is never in use here.
func tilesAMX(s *bf16Scratch, rows, cols, steps int, c []float32, stride int, acc bool) {
	tilesGo(s, rows, cols, steps, c, stride, acc)
}
