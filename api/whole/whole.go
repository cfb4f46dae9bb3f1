// Package whole derives the server's full contract from api/openapi.yaml, the contract for clients.
// In that file, extensions hide three parts that client generators should ignore:
//
//   - x-server-content follows the content of a request, and lists further media types that the
//     server accepts. A client generator that found several types would pick JSON for plain text.
//   - x-server-paths follows the paths, and describes the page for people. The page has no
//     operations for programs.
//   - x-server-examples has examples of event streams. They are hidden because the schema describes
//     one event, and linters would check a whole stream against it.
package whole

import "regexp"

var (
	more  = regexp.MustCompile(`(?m)^ *x-server-(?:content|paths):\n`)
	other = regexp.MustCompile(`(?m)^( *)x-server-(examples:)`)
)

// Of returns the full contract: it merges every extension into the block before the extension. The
// lines of an extension already have the indentation of that block. Of therefore only deletes the
// line with the extension's name.
func Of(yaml []byte) []byte {
	return other.ReplaceAll(more.ReplaceAll(yaml, nil), []byte("$1$2"))
}
