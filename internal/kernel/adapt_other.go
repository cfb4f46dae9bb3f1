//go:build !amd64 || noasm

package kernel

func (g *Grid) fetch() {}

func (a *Adaptation) vector() (n, written int) { return 0, 0 }
