//go:build !amd64 || noasm

package kernel

func (a *Adaptation) vector() (n, written int) { return 0, 0 }
