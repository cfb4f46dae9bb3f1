package session

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// copyBytes is how much text of a log is appended to another at once.
const copyBytes = 256 << 10

// copier appends records to a session that is being made.
type copier struct {
	engine  *engine
	to      *session
	at      int64 // the end of what was appended
	records []sessionlog.Record
	text    int // bytes of the records' text
	bytes   int // the records' sizes
}

// copy copies a record, with its text.
func (c *copier) copy(ctx context.Context, r sessionlog.Record) error {
	r.Text = bytes.Clone(r.Text)
	c.records = append(c.records, r)
	c.text += len(r.Text)
	if c.bytes += recordSize(&r); c.bytes < copyBytes {
		return nil
	}
	return c.flush(ctx)
}

func (c *copier) flush(ctx context.Context) error {
	if len(c.records) == 0 {
		return nil
	}
	if err := c.engine.chargeRecords(c.to, c.bytes, len(c.records)); err != nil {
		return err
	}
	if err := c.to.appendLocked(ctx, c.at, c.records...); err != nil {
		return err
	}
	c.at += int64(c.text)
	c.records, c.text, c.bytes = c.records[:0], 0, 0
	return nil
}
