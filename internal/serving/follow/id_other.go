//go:build !unix

package follow

import "os"

// idOf returns an empty identity, because os.FileInfo has no identity that survives renaming on
// this system.
func idOf(os.FileInfo) string { return "" }
