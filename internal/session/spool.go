package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// spool is a temporary file that an export is written to before its reader gets it: however slow
// the reader is, it holds a part of the disk and no memory. The file is in the system's folder for such
// files, can be read by this user alone, and has no name any more where the system allows that, so
// that nothing is left of it when the process is killed.
type spool struct{ file *os.File }

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "lmserve-export-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name()) // where a file that is open cannot be removed, close does it
	return &spool{file}, nil
}

// fill makes the spool hold what write writes. If the disk is full, the error is ErrNoSpace.
func (s *spool) fill(write func(io.Writer) error) error {
	out := bufio.NewWriter(s.file)
	err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: the temporary file of an export: %w", ErrNoSpace, err)
	}
	return err
}

// copyTo writes to w what the spool holds.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	// The type hides that w may read a file on its own: it is to be told of every piece.
	if _, err := io.Copy(struct{ io.Writer }{w}, s.file); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // it has no name any more but where newSpool could not remove it
}
