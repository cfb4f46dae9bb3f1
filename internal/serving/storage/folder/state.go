package folder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// A snapshot's file contains the output of storage.CompressSnapshot, followed by the SHA-256 of
// these compressed bytes.

// WriteSnapshot implements storage.Store.
func (f *Folder) WriteSnapshot(
	ctx context.Context, id string, epoch uint64, at int64, write func(io.Writer) error,
) error {
	f.snapshotting.RLock()
	defer f.snapshotting.RUnlock()
	admit := func(s *session) error { return s.admit(at) }
	// This early check avoids writing a file in vain. The check is repeated later, because the
	// session may change while the file is written.
	if err := f.change(ctx, id, epoch, admit); err != nil {
		return err
	}
	unfinished := temporaryName(filepath.Join(f.sessionPath(id), hexName(statePrefix, uint64(at))))
	kept, err := f.writeState(ctx, unfinished, write)
	renamed := false
	if err == nil {
		kept.Offset = at
		err = f.change(ctx, id, epoch, func(s *session) error {
			if err := admit(s); err != nil {
				return err
			}
			path := f.file(s, statePrefix, at)
			if err := f.files.Rename(unfinished, path); err != nil {
				return f.fault("writing "+path, err)
			}
			if err := f.files.SyncDir(f.sessionPath(id)); err != nil {
				s.leftovers, s.unsynced = append(s.leftovers, filepath.Base(unfinished)), true
				renamed = true
				return f.fault("writing "+path, errors.Join(err, f.files.Rename(path, unfinished)))
			}
			n := len(s.states)
			for n > 0 && s.states[n-1].Offset > at {
				n--
			}
			s.states = slices.Insert(s.states, n, &state{Snapshot: kept})
			return nil
		})
	}
	// A file that already had the snapshot's name is not overwritten. After a power cut it may have
	// that name again, and overwritten content would look like damage.
	if err != nil && !renamed {
		// if shred fails, the next opening of the folder removes the file
		_ = f.shred(unfinished)
	}
	return err
}

func (s *session) admit(at int64) error {
	if s.stateAt(at) >= 0 {
		return storage.SnapshotExists(s.id, at)
	}
	return storage.CheckSnapshot(s.id, at, s.start, s.end, len(s.states))
}

func (f *Folder) writeState(
	ctx context.Context, path string, write func(io.Writer) error,
) (kept storage.Snapshot, err error) {
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return kept, f.fault("writing "+path, err)
	}
	hash := sha256.New()
	made := &counter{sum: &f.temporary, w: out}
	defer func() { f.temporary.Add(-made.n) }()
	err = storage.CompressSnapshot(ctx, io.MultiWriter(made, hash), write)
	if err == nil {
		kept.SHA256 = [32]byte(hash.Sum(nil))
		_, err = made.Write(kept.SHA256[:])
	}
	if err == nil {
		err = out.Sync()
	}
	kept.Bytes = made.n
	err = errors.Join(err, out.Close())
	if errors.As(err, new(*fs.PathError)) {
		err = f.fault("writing "+path, err)
	}
	return kept, err
}

// counter counts the bytes that are written to an unfinished file. n is the count of this file, and
// sum is the total of all unfinished files.
type counter struct {
	sum *atomic.Int64
	w   io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.sum.Add(int64(n))
	return n, err
}

// Snapshots implements storage.Store.
func (f *Folder) Snapshots(ctx context.Context, id string) (found []storage.Snapshot, err error) {
	err = f.with(ctx, id, func(s *session) error {
		for _, kept := range s.states {
			if kept.SHA256 == [32]byte{} {
				f.readSum(s, kept)
			}
			found = append(found, kept.Snapshot)
		}
		return nil
	})
	return found, err
}

// readSum sets the snapshot's SHA-256 from its file, or leaves it zero if the file cannot be read.
func (f *Folder) readSum(s *session, kept *state) {
	in, _, err := f.open(f.file(s, statePrefix, kept.Offset))
	if err != nil {
		return
	}
	defer in.Close()
	var sum [sha256.Size]byte
	if _, err := in.ReadAt(sum[:], max(0, kept.Bytes-sha256.Size)); err == nil {
		kept.SHA256 = sum
	}
}

// ReadSnapshot implements storage.Store. A snapshot that is dropped during the read is overwritten,
// and then looks damaged. So after an error ReadSnapshot checks that the session still has this
// snapshot.
func (f *Folder) ReadSnapshot(
	ctx context.Context, id string, at int64, read func(io.Reader) error,
) error {
	for {
		kept, err := f.findState(ctx, id, at)
		if err != nil {
			return err
		}
		verified := false
		err = f.readState(ctx, id, at, func(r io.Reader) error {
			verified = true
			return read(r)
		})
		if err == nil {
			return nil
		}
		if errors.Is(err, storage.ErrCorrupt) {
			if err := f.inPlace(); err != nil {
				return err
			}
		}
		switch now, gone := f.findState(ctx, id, at); {
		case gone != nil:
			return gone
		case now == kept:
			return err
		case verified:
			return fmt.Errorf("storage: session %s: %w: another snapshot replaced the snapshot at "+
				"offset %d during a read; retry: %w", id, storage.ErrUnavailable, at, err)
		}
	}
}

func (f *Folder) findState(ctx context.Context, id string, at int64) (kept *state, err error) {
	err = f.with(ctx, id, func(s *session) error {
		n := s.stateAt(at)
		if n < 0 {
			return storage.SnapshotNotFound(id, at)
		}
		kept = s.states[n]
		return nil
	})
	return kept, err
}

// readState verifies a snapshot's file, and then calls the function `read` with the file's content.
func (f *Folder) readState(
	ctx context.Context, id string, at int64, read func(io.Reader) error,
) error {
	path := filepath.Join(f.sessionPath(id), hexName(statePrefix, uint64(at)))
	damaged := func(format string, args ...any) error {
		name := sessionsName + "/" + id + "/" + filepath.Base(path)
		return &storage.CorruptError{File: name, Byte: -1, Session: id, Offset: at,
			What: fmt.Sprintf(format, args...)}
	}
	in, info, err := f.open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("missing")
	case errors.Is(err, storage.ErrUnavailable):
		return err
	case err != nil:
		return damaged("%v", err)
	}
	defer in.Close()
	size := info.Size() - sha256.Size
	if size < 0 {
		return damaged("%d bytes, expected %d or more", info.Size(), sha256.Size)
	}
	hash, want := sha256.New(), make([]byte, sha256.Size)
	n, err := io.Copy(hash, &contextReader{ctx, io.NewSectionReader(in, 0, size)})
	if err == nil {
		_, err = in.ReadAt(want, size)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return damaged("after %d bytes: %v", n, err)
	case [32]byte(hash.Sum(nil)) != [32]byte(want):
		return damaged("SHA-256 %x, expected %x", hash.Sum(nil), want)
	}
	return storage.DecompressSnapshot(io.NewSectionReader(in, 0, size), read)
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// DropSnapshot implements storage.Store.
func (f *Folder) DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error {
	return f.change(ctx, id, epoch, func(s *session) error {
		n := s.stateAt(at)
		if n < 0 {
			return storage.SnapshotNotFound(id, at)
		}
		// Rename the file before overwriting it. Otherwise a crash could leave a partly overwritten
		// file under the snapshot's name, which would look like damage.
		path := f.file(s, statePrefix, at)
		dropped := temporaryName(path)
		if err := f.files.Rename(path, dropped); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f.fault("dropping "+path, err)
		}
		f.usage.drop(s, s.states[n].shared, s.states[n].Bytes)
		s.states = slices.Delete(s.states, n, n+1)
		s.leftovers, s.unsynced = append(s.leftovers, filepath.Base(dropped)), true
		return f.mend(s)
	})
}
