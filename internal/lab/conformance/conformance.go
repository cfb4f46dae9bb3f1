// Package conformance replays files of reference numbers through the real
// code and tells how far each tensor is off. The files are safetensors whose
// metadata key "kind" says what they hold: txl, adasoftmax, sparsemeta,
// metatrain or metaonline (docs/conformance.md describes them).
package conformance

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/weights"
)

// Run replays a file. An error means that the file could not be replayed:
// malformed, incomplete, or of a kind that is not known.
func Run(f *weights.File, x *kernel.Exec) (Report, error) {
	r := &replay{file: f, exec: x}
	kind := f.Metadata["kind"]
	var run func()
	switch kind {
	case "txl", "adasoftmax":
		run = r.txl
	case "sparsemeta", "metaonline":
		run = r.online
	case "metatrain":
		run = r.window
	default:
		return Report{Kind: kind}, fmt.Errorf("metadata kind is %q, "+
			"expected txl, adasoftmax, sparsemeta, metatrain or metaonline", kind)
	}
	r.loadModel()
	if r.err == nil {
		run()
	}
	return Report{Kind: kind, Checks: r.checks}, r.err
}
