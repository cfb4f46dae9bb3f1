//go:build race

package session

const fedBytes = 128 << 10 // small, because the race detector is slow
