package stream

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/weights"
)

// keySnapshot is the metadata key of a snapshot's header. snapshotVersion is the version of the
// whole file (docs/formats.md).
const (
	keySnapshot     = "lmserve.snapshot"
	snapshotVersion = 1
)

// Tensors of bytes. Only streams with lines, with words as tokens, or with a companion have them.
const (
	tensorLines     = "lines"          // the state of the lines
	tensorRecords   = "records"        // the state of the records
	tensorWord      = "text.word"      // the bytes of the pending word
	tensorCompanion = "companion"      // the state of the companion
	tensorBefore    = "held.companion" // the companion before the open line, see held
)

// Names of tensors with the state of learning by lines. Restore looks them up.
const (
	tensorHeld    = "held.line"
	tensorMarks   = "held.marks"
	tensorCarried = "held.gradient"
	tensorNext    = "cache.next"
)

// readBytes reads a tensor of at most `most` bytes.
func readBytes(t *weights.StoredTensor, most int) ([]byte, error) {
	if t.DType != weights.U8 || len(t.Shape) != 1 || t.Bytes > int64(most) {
		return nil, fmt.Errorf("tensor %q has type and shape %s%v, expected type %s and one "+
			"dimension of at most %d",
			t.Name, t.DType, t.Shape, weights.U8, most)
	}
	data := make([]byte, t.Bytes)
	_, err := io.ReadFull(t.Reader(), data)
	return data, err
}
