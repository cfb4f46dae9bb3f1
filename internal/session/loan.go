package session

import (
	"bufio"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// loan is memory for an export or import under way, beside that of the states. It is not waited for: two files could do so for each other.
type loan struct {
	mg    *Manager
	bytes int64
}

// take borrows more. Its error is ErrFull.
func (l *loan) take(bytes int64) error {
	mg := l.mg
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if most := max(mg.options.MaxMemoryBytes/2, filesBytes); mg.lent+bytes > most {
		return fmt.Errorf("%w: of %d bytes for exports and imports, %d are in use", ErrFull, most, mg.lent)
	}
	mg.lent += bytes
	l.bytes += bytes
	return nil
}

// repay gives everything back.
func (l *loan) repay() {
	l.mg.mu.Lock()
	defer l.mg.mu.Unlock()
	l.mg.lent -= l.bytes
	l.bytes = 0
}

// importWindow is the largest window of a zstd stream that is imported; what zstd makes up to its level 19 has no larger one.
const importWindow = 8 << 20

// charged reads a file that may be compressed, and borrows the memory that its reader will need for it.
type charged struct {
	loan *loan
	in   *remembering
	r    io.Reader // decompressed
	z    *zstd.Decoder
	err  error // of the loan
}

func newCharged(l *loan, r io.Reader) (*charged, error) {
	c := &charged{loan: l, in: &remembering{r: r}}
	in := bufio.NewReader(c.in)
	c.r = in
	if magic, _ := in.Peek(4); string(magic) != "\x28\xb5\x2f\xfd" {
		return c, nil
	}
	if err := l.take(importWindow); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(importWindow))
	if err != nil {
		return nil, fmt.Errorf("session: import: %w", err)
	}
	c.r, c.z = z, z
	return c, nil
}

func (c *charged) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.err = c.loan.take(int64(n)); c.err != nil {
		return 0, c.err
	}
	return n, err
}

func (c *charged) close() {
	if c.z != nil {
		c.z.Close()
	}
}

// why tells an error of the file apart from those of its reader and of the loan.
func (c *charged) why(err error) error {
	switch {
	case c.err != nil:
		return c.err
	case c.in.err != nil && c.in.err != io.EOF:
		return &BodyError{Offset: -1, Err: c.in.err}
	}
	return fmt.Errorf("%w: %w", ErrImport, err)
}

// remembering keeps the error of the reader below.
type remembering struct {
	r   io.Reader
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p)
	r.err = err
	return n, err
}
