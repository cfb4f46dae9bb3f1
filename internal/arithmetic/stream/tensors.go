package stream

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/weights"
)

const (
	keySnapshot     = "lmserve.snapshot"
	snapshotVersion = 1
)

const (
	tensorLines     = "lines"
	tensorRecords   = "records"
	tensorWord      = "text.word"
	tensorCompanion = "companion"
	tensorBefore    = "held.companion"
)

const (
	tensorHeld    = "held.line"
	tensorMarks   = "held.marks"
	tensorCarried = "held.gradient"
	tensorNext    = "cache.next"
)

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
