//go:build !(linux || darwin || freebsd || dragonfly || windows)

package folder

// spaceOf returns 0: the space is not known here.
func spaceOf(string) (left, all int64, err error) { return 0, 0, nil }
