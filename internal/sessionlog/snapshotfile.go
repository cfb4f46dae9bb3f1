package sessionlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

const (
	// A state is rows of floats, which hardly get smaller by trying harder.
	snapshotLevel  = zstd.SpeedFastest
	snapshotWindow = 1 << 20
)

func snapshotFailed(path string, err error) error {
	if noSpace(err) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("sessionlog: writing %s: %w", path, err)
}

// compress writes what write writes, as a zstd stream.
func compress(to io.Writer, write func(io.Writer) error) error {
	z, err := zstd.NewWriter(to, zstd.WithEncoderLevel(snapshotLevel), zstd.WithWindowSize(snapshotWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if err := write(z); err != nil {
		z.Close()
		return err
	}
	return z.Close()
}

// counter counts what is written, until its context ends.
type counter struct {
	ctx context.Context
	w   io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// verify opens a snapshot's file, if it is just what was written. The caller closes it.
func verify(ctx context.Context, files fileSystem, dir, id string, s Snapshot) (_ file, err error) {
	name := snapshotsFolder + "/" + s.file(id)
	damaged := func(format string, args ...any) error {
		return &CorruptError{File: name, Byte: -1, Session: id, Offset: s.Offset, What: fmt.Sprintf(format, args...)}
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe may wait for ever
		return nil, damaged("not a regular file")
	}
	in, err := files.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("missing, expected %d bytes", s.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("sessionlog: %w", err)
	}
	defer func() {
		if err != nil {
			in.Close()
		}
	}()
	hash := sha256.New()
	size, err := io.Copy(&counter{ctx: ctx, w: hash}, in)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, damaged("after %d bytes: %v", size, err)
	case size != s.Bytes:
		return nil, damaged("%d bytes, expected %d", size, s.Bytes)
	case [32]byte(hash.Sum(nil)) != s.SHA256:
		return nil, damaged("SHA-256 %x, expected %x", hash.Sum(nil), s.SHA256)
	}
	return in, nil
}

// decompress undoes compress.
func decompress(from io.Reader, read func(io.Reader) error) error {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(snapshotWindow))
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	defer z.Close()
	return read(z)
}
