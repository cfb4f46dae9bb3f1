package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// spoolBufferBytes is how much is written to a spool at once.
const spoolBufferBytes = 32 << 10

// spool is a temporary file that holds an export before its reader gets it, and an import before it
// is looked at: however slow a client is, it holds a part of the disk and no memory. The file is in
// the system's folder for such files, can be read by this user alone, and has no name any more where
// the system allows that, so that nothing is left of it when the process is killed.
type spool struct{ file *os.File }

// newSpool makes a spool. Its error, as that of everything that is written to the spool, is
// ErrNoSpace where the disk is full, or where there is no folder for temporary files.
func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "lmserve-spool-")
	if err != nil {
		return nil, fmt.Errorf("%w: no temporary file: %w", ErrNoSpace, err)
	}
	_ = os.Remove(file.Name()) // where a file that is open cannot be removed, close does it
	return &spool{file}, nil
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	return n, spoolError(err)
}

// WriteAt implements io.WriterAt.
func (s *spool) WriteAt(p []byte, at int64) (int, error) {
	n, err := s.file.WriteAt(p, at)
	return n, spoolError(err)
}

// ReadAt implements io.ReaderAt.
func (s *spool) ReadAt(p []byte, at int64) (int, error) { return s.file.ReadAt(p, at) }

// spoolError makes an error of a full disk ErrNoSpace.
func spoolError(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: a temporary file: %w", ErrNoSpace, err)
	}
	return err
}

// fill makes the spool hold what write writes.
func (s *spool) fill(write func(io.Writer) error) error {
	out := bufio.NewWriterSize(s, spoolBufferBytes)
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}

// end is the number of bytes in the spool.
func (s *spool) end() (int64, error) { return s.file.Seek(0, io.SeekEnd) }

// reader reads the spool from its beginning.
func (s *spool) reader() (io.Reader, error) {
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// copyTo writes to w what the spool holds.
func (s *spool) copyTo(w io.Writer) error {
	r, err := s.reader()
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	// The type hides that w may read a file on its own: it is to be told of every piece.
	if _, err := io.Copy(struct{ io.Writer }{w}, r); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // it has no name any more but where newSpool could not remove it
}
