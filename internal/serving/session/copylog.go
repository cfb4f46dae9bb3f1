package session

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// copyBytes is the size, in bytes, at which copyLog passes the collected records to appendAt.
const copyBytes = 256 << 10

// copyLog passes the records of a log from an offset on to appendAt, several per call. The
// parameter bytes of appendAt is the sum of their sizes (see recordSize). The parameter text is the
// number of bytes of their text.
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
