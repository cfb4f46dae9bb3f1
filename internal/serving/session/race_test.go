//go:build race

package session

const fedBytes = 128 << 10 // the race detector makes it slow
