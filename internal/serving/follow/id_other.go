//go:build !unix

package follow

import "os"

// idOf names a file where the system has a name for it that os.FileInfo tells: here it has none.
func idOf(os.FileInfo) string { return "" }
