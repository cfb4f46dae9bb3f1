// Package conformance replays files of reference numbers through the production code, and reports
// the error of each tensor. The files are safetensors. Their metadata key "kind" is txl,
// adasoftmax, sparsemeta, metatrain or metaonline (see docs/conformance.md).
package conformance

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/weights"
)

// Run replays a file. It returns an error if the file is malformed, incomplete, or of an unknown
// kind.
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
