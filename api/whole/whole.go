// Package whole derives the server's full contract from api/openapi.yaml, the contract for clients.
// In that file, extensions hide parts that client generators should ignore:
//
//   - x-server-content, after the content of a request: further media types that the server
//     accepts.
//     With several types a generator picks one at will, and sends JSON for a text.
//   - x-server-paths, after paths: the page for people, which has no operations for programs.
//   - x-server-examples, in place of examples: examples of event streams. Their schema describes
//     one event, and linters would check the whole stream against it.
package whole

import "regexp"

var (
	more  = regexp.MustCompile(`(?m)^ *x-server-(?:content|paths):\n`)
	other = regexp.MustCompile(`(?m)^( *)x-server-(examples:)`)
)

// Of returns the document with every extension merged into the block before it. The extensions are
// indented so that removing the line with their name merges them.
func Of(yaml []byte) []byte {
	return other.ReplaceAll(more.ReplaceAll(yaml, nil), []byte("$1$2"))
}
