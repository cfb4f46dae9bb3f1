//go:build race

package session

const fedBytes = 128 << 10 // smaller, because the race detector is slow
