// Package whole makes the contract that the server goes by of the one that it gives to clients,
// api/openapi.yaml. What generators of clients should pass over is in extensions there:
//
//   - x-server-content, behind the content of a request: other media types that the server takes.
//     Of several a generator takes whichever it likes best, and sends JSON for a text.
//   - x-server-paths, behind paths: the page for people, which has no operations for programs.
//   - x-server-examples, in place of examples: those of event streams. A schema there is that of an
//     event, and linters hold the whole stream against it.
package whole

import "regexp"

var (
	more  = regexp.MustCompile(`(?m)^ *x-server-(?:content|paths):\n`)
	other = regexp.MustCompile(`(?m)^( *)x-server-(examples:)`)
)

// Of returns the document with every extension as a part of the block before it. The extensions
// are written so that their lines go on in that block once the line that names them is gone.
func Of(yaml []byte) []byte {
	return other.ReplaceAll(more.ReplaceAll(yaml, nil), []byte("$1$2"))
}
