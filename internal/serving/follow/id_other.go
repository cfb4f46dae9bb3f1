//go:build !unix

package follow

import "os"

// idOf returns an identity of a file that survives renaming, if the system has one in os.FileInfo.
// Here it has none.
func idOf(os.FileInfo) string { return "" }
