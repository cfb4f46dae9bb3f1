//go:build !race

package session

const fedBytes = 2 << 20
