package session

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// copyBytes is the number of bytes of text that copyLog appends per call of appendAt.
const copyBytes = 256 << 10

// copyLog copies the records of a log from an offset on. Each call of appendAt gets several
// records, the sum of their sizes (see recordSize), and the number of bytes of their text.
func copyLog(
	ctx context.Context, log logReader, id string, from int64,
	appendAt func(at int64, records []storage.Record, bytes, text int) error,
) error {
	var batch []storage.Record
	at, size, text := from, 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := appendAt(at, batch, size, text)
		at, size, text, batch = at+int64(text), 0, 0, batch[:0]
		return err
	}
	err := log.Read(ctx, id, from, func(_ int64, r storage.Record) error {
		r.Text = bytes.Clone(r.Text)
		batch, text = append(batch, r), text+len(r.Text)
		if size += recordSize(&r); size < copyBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
