// Package spool keeps bytes in a temporary file, so that slow clients use disk space instead of
// memory.
package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// BufferBytes is the size of the buffer for reads and writes of a spool, in bytes.
const BufferBytes = 32 << 10

// ErrNoSpace says that a temporary file cannot be created or written: the disk is full, or the
// folder is missing.
var ErrNoSpace = errors.New("no room for a temporary file")

// Spool is a temporary file in the system's folder for temporary files (os.TempDir). Only the
// server's user can read it. On systems that allow it, the file has no name and disappears when the
// process is killed.
type Spool struct{ file *os.File }

// New returns an empty spool. Every error of New is an ErrNoSpace.
func New() (*Spool, error) {
	file, err := os.CreateTemp("", "lmserve-spool-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	// an error does not matter: where an open file cannot be removed, Close removes it
	_ = os.Remove(file.Name())
	return &Spool{file}, nil
}

// Close closes and removes the temporary file.
func (s *Spool) Close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // has no effect if New has already removed the file
}

// Write implements io.Writer. It appends to the bytes of earlier Write calls.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	return n, noSpace(err)
}

// WriteAt implements io.WriterAt.
func (s *Spool) WriteAt(p []byte, at int64) (int, error) {
	n, err := s.file.WriteAt(p, at)
	return n, noSpace(err)
}

// ReadAt implements io.ReaderAt.
func (s *Spool) ReadAt(p []byte, at int64) (int, error) { return s.file.ReadAt(p, at) }

// noSpace wraps an error of a full disk or an exceeded quota in ErrNoSpace.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// Bytes returns the number of bytes in the spool.
func (s *Spool) Bytes() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Fill calls the function `write` with a buffered writer that appends to the spool.
func (s *Spool) Fill(write func(io.Writer) error) error {
	out := bufio.NewWriterSize(s, BufferBytes)
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}

// Reader returns a reader of the spool's whole content.
func (s *Spool) Reader() (*io.SectionReader, error) {
	n, err := s.Bytes()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(s, 0, n), nil
}

// CopyTo writes the spool's content to w.
func (s *Spool) CopyTo(w io.Writer) error {
	r, err := s.Reader()
	if err != nil {
		return err
	}
	// CopyBuffer would call the method ReadFrom of w, which would ignore the buffer. The struct
	// hides this method.
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, BufferBytes))
	return err
}

// Receive copies all of r into a new spool. An error of r is returned as a *ReadError.
func Receive(r io.Reader) (*Spool, error) {
	s, err := New()
	if err != nil {
		return nil, err
	}
	in := &remembering{r: r}
	// The struct hides all methods of Spool except Write, so that CopyBuffer uses the buffer.
	_, err = io.CopyBuffer(struct{ io.Writer }{s}, in, make([]byte, BufferBytes))
	if in.err != nil && in.err != io.EOF {
		err = &ReadError{in.err}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ReadError is an error of the reader that was passed to Receive.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }

// Unwrap returns the reader's error.
func (e *ReadError) Unwrap() error { return e.Err }

// remembering is a reader that keeps the last error of the reader r.
type remembering struct {
	r   io.Reader
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.err = err
	return n, err
}
