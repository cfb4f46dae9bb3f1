package session

import (
	"bufio"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/weights"
)

// importWindow is the largest window of a zstd stream that is imported; what zstd makes up to its
// level 19 has no larger one.
const importWindow = 8 << 20

// readCharged reads a file, as the memory for it is granted.
func readCharged(memory *budget.Allowance, r io.Reader) (*weights.File, error) {
	c, err := newCharged(memory, r)
	if err != nil {
		return nil, err
	}
	defer c.close()
	f, err := weights.Read(c, weights.Limits{})
	if err != nil {
		return nil, c.why(err)
	}
	return f, nil
}

// charged reads a file that may be compressed, and draws the memory that its reader will need for
// it.
type charged struct {
	memory *budget.Allowance
	in     *remembering
	r      io.Reader // decompressed
	z      *zstd.Decoder
	err    error // of the allowance
}

func newCharged(memory *budget.Allowance, r io.Reader) (*charged, error) {
	c := &charged{memory: memory, in: &remembering{r: r}}
	in := bufio.NewReader(c.in)
	c.r = in
	if magic, _ := in.Peek(4); string(magic) != "\x28\xb5\x2f\xfd" {
		return c, nil
	}
	if err := memory.Draw(importWindow); err != nil {
		return nil, memoryError(err)
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
	if c.err = memoryError(c.memory.Draw(int64(n))); c.err != nil {
		return 0, c.err
	}
	return n, err
}

func (c *charged) close() {
	if c.z != nil {
		c.z.Close()
	}
}

// why tells an error of the file from those of its reader and of the allowance.
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
