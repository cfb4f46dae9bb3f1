package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Names of files and folders in a data folder.
const (
	sessionsName = "sessions"
	makingName   = "making"
	removedName  = "removed"
	backupName   = "backup"
	versionName  = "version"
	epochName    = "epoch"
	lockName     = "lock"

	versionText = "lmserve data folder 2\n"
	oldDatabase = "lmserve.db"
)

// Folder is a storage.Store that keeps sessions in the files of a data folder.
type Folder struct {
	dir string
	// the identity of dir when it was opened; nil if the store is an archive
	place    fs.FileInfo
	readOnly bool
	// report receives errors that do not make a call fail. It is safe for concurrent use.
	report func(error)
	files  fileSystem
	lock   *os.File

	// writing is read-locked by calls that change files. It is write-locked while no file may
	// change: while a backup makes links, and during Close.
	writing sync.RWMutex
	// snapshotting is read-locked by calls that write a snapshot, before they lock writing. It is
	// write-locked during Close.
	snapshotting sync.RWMutex
	unlinking    sync.Mutex

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	// the sorted ids of the complete sessions; nil if they must be sorted again
	ids      []string
	complete map[string]bool
	epoch    uint64
	bound    uint64 // epochs below bound are reserved, and may be given out
	undone   []string

	usage     usage
	temporary atomic.Int64           // the bytes of unfinished files
	backup    atomic.Pointer[Backup] // nil if no backup is open
	closing   chan struct{}
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// epochsReserved is the number of epochs that one write of the file "epoch" reserves.
const epochsReserved = 1 << 16

// nextEpoch returns an epoch that was never given out, even before a crash.
func (f *Folder) nextEpoch() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch+1 >= f.bound {
		bound := f.epoch + epochsReserved
		if _, err := f.write(f.path(epochName), []byte(hexName("", bound)+"\n")); err != nil {
			return 0, f.fault("reserving epochs", err)
		}
		f.bound = bound
	}
	f.epoch++
	return f.epoch, nil
}

// inPlace checks that the opened data folder is still at its path. The folder may have been
// unmounted or moved.
func (f *Folder) inPlace() error {
	if f.place == nil {
		return nil
	}
	now, err := os.Stat(f.dir)
	if err == nil && os.SameFile(f.place, now) {
		return nil
	}
	found := "another folder"
	if err != nil {
		found = err.Error()
	}
	return fmt.Errorf("storage: %w: %s: found %s, expected the data folder that was opened: move "+
		"that folder back, or mount it again", storage.ErrUnavailable, f.dir, found)
}

// fault wraps an error of the file system. A full disk becomes storage.ErrNoSpace. Every other
// error becomes storage.ErrUnavailable, because the next call may succeed. storage.ErrUnknown is
// kept, because it says that the outcome of the write is unknown. The error affects only the
// session of the call.
func (f *Folder) fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrUnknown):
		return fmt.Errorf("storage: %s: %w", doing, err)
	case isFull(err):
		return fmt.Errorf("storage: %s: %w: %w", doing, storage.ErrNoSpace, err)
	case errors.Is(err, fs.ErrNotExist):
		if away := f.inPlace(); away != nil {
			return away
		}
	}
	return fmt.Errorf("storage: %s: %w: %w", doing, storage.ErrUnavailable, err)
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// enter begins a call that changes files. If enter returns nil, the caller must call
// f.writing.RUnlock when it is done.
func (f *Folder) enter() error {
	if f.readOnly {
		return fmt.Errorf("storage: %s: %w", f.dir, storage.ErrReadOnly)
	}
	f.writing.RLock()
	err := f.usable()
	if err == nil {
		err = f.inPlace()
	}
	if err != nil {
		f.writing.RUnlock()
	}
	return err
}

func (f *Folder) usable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return storage.ErrClosed
	}
	return nil
}

// with locks a session and calls the function `do` with it.
func (f *Folder) with(ctx context.Context, id string, do func(s *session) error) error {
	if err := f.usable(); err != nil {
		return err
	}
	f.mu.Lock()
	s := f.sessions[id]
	f.mu.Unlock()
	if s == nil {
		return storage.NotFound(id)
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	// usable is called again, because the folder may have been closed before the lock was taken
	if err := f.usable(); err != nil {
		return err
	}
	if s.gone {
		return storage.NotFound(id)
	}
	if err := f.settle(s); err != nil {
		return err
	}
	return do(s)
}

// change locks a session and calls the function `do`, which may change the session's files. It
// refuses a caller whose epoch is not the epoch of the session's last claim.
func (f *Folder) change(
	ctx context.Context, id string, epoch uint64, do func(s *session) error,
) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.writing.RUnlock()
	return f.with(ctx, id, func(s *session) error {
		if s.epoch != epoch {
			return &storage.FencedError{Session: id, Have: s.epoch, Want: epoch}
		}
		defer f.usage.update(s)
		return do(s)
	})
}

// Durable implements storage.Store. It returns true.
func (f *Folder) Durable() bool { return true }

// Create implements storage.Store.
func (f *Folder) Create(
	ctx context.Context, id string, head []byte, start int64,
) (epoch uint64, err error) {
	if err := storage.CheckCreate(id, head, start); err != nil {
		return 0, err
	}
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.writing.RUnlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s := newSession(id)
	s.head, s.start, s.end, s.claimed = append([]byte{}, head...), start, start, start
	return f.make(s, func(string) error { return nil })
}

// make creates a session. It calls fill to add the log and the snapshots to the session's folder.
func (f *Folder) make(s *session, fill func(dir string) error) (epoch uint64, err error) {
	if s.epoch, err = f.nextEpoch(); err != nil {
		return 0, err
	}
	s.lock <- struct{}{}
	defer s.release()
	f.mu.Lock()
	if f.sessions[s.id] != nil {
		f.mu.Unlock()
		return 0, fmt.Errorf("storage: session %s: %w", s.id, storage.ErrExists)
	}
	f.sessions[s.id] = s
	f.mu.Unlock()
	made := filepath.Join(f.path(makingName), fmt.Sprintf("%016x", rand.Uint64()))
	if err = f.makeFolder(s, made, fill); err == nil {
		f.usage.add(s)
	}
	if err != nil {
		s.gone = true
		f.mu.Lock()
		delete(f.sessions, s.id)
		f.mu.Unlock()
		return 0, errors.Join(f.fault("making session "+s.id, err), f.erase(made))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.complete[s.id], f.ids = true, nil
	return s.epoch, nil
}

func (f *Folder) makeFolder(s *session, made string, fill func(dir string) error) error {
	if err := f.files.Mkdir(made, 0o700); err != nil {
		return err
	}
	if err := fill(made); err != nil {
		return err
	}
	head := encodeHead(headData{ID: s.id, Start: s.start}, s.head)
	err := firstError(
		func() error { return f.fill(filepath.Join(made, headName), head) },
		func() error { return f.fillEmpty(filepath.Join(made, claimName(s.epoch, s.end))) },
		func() error { return f.files.SyncDir(made) },
		func() error { return f.files.Rename(made, f.sessionPath(s.id)) },
	)
	if err != nil {
		return err
	}
	if err := f.files.SyncDir(f.path(sessionsName)); err != nil {
		return errors.Join(err, f.files.Rename(f.sessionPath(s.id), made))
	}
	return nil
}

// fillEmpty creates an empty file without a sync.
func (f *Folder) fillEmpty(path string) error {
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return out.Close()
}

// Claim implements storage.Store. The name of a file records the claim. Claim does not wait until
// the name is on the disk, so a power cut may lose the name. That is safe: the power cut also ends
// every process with an older epoch, and no epoch is given out twice.
func (f *Folder) Claim(ctx context.Context, id string) (found storage.Session, err error) {
	if err := f.enter(); err != nil {
		return found, err
	}
	defer f.writing.RUnlock()
	err = f.with(ctx, id, func(s *session) error {
		defer f.usage.update(s)
		if s.damage != nil {
			return s.damage
		}
		if err := f.mend(s); err != nil {
			return err
		}
		epoch, err := f.nextEpoch()
		if err != nil {
			return err
		}
		if err := f.noteClaim(s, epoch); err != nil {
			return f.fault("claiming session "+id, err)
		}
		found = s.describe()
		return nil
	})
	return found, err
}

// noteClaim renames the claim file. The new name contains the epoch and the end of the log.
func (f *Folder) noteClaim(s *session, epoch uint64) error {
	dir := f.sessionPath(s.id)
	to := filepath.Join(dir, claimName(epoch, s.end))
	err := f.files.Rename(filepath.Join(dir, claimName(s.epoch, s.claimed)), to)
	// The empty file of the last claim may be missing, for example in a copy of the folder.
	if errors.Is(err, fs.ErrNotExist) {
		err = f.fillEmpty(to)
	}
	if err == nil {
		s.epoch, s.claimed = epoch, s.end
	}
	return err
}

// settle syncs the files of a session if a killed process or a failed sync may have left them
// unsynced. A caller may see the files only after settle, because a power cut could remove unsynced
// files. settle does not change damaged sessions.
func (f *Folder) settle(s *session) error {
	if !s.unsynced || f.readOnly || s.damage != nil {
		return nil
	}
	err := f.files.SyncDir(f.sessionPath(s.id))
	// Only the last segment can have unsynced text: the text after s.claimed.
	if n := len(s.segments); err == nil && n > 0 && s.end > s.claimed {
		var out file
		last := f.file(s, segmentPrefix, s.segments[n-1].offset)
		if out, err = f.files.OpenFile(last, os.O_WRONLY|nonblock, 0); err == nil {
			err = errors.Join(out.Sync(), out.Close())
		}
	}
	s.unsynced = err != nil
	return f.fault("syncing session "+s.id, err)
}

// mend removes what a killed process, a power cut or a failed write has left in a session's folder:
// leftover files, and bytes after the end of the log.
func (f *Folder) mend(s *session) error {
	if err := f.settle(s); err != nil {
		return err
	}
	for len(s.leftovers) > 0 {
		if err := f.shred(filepath.Join(f.sessionPath(s.id), s.leftovers[0])); err != nil {
			return f.fault("removing a leftover of session "+s.id, err)
		}
		s.leftovers = s.leftovers[1:]
	}
	if !s.suspect || len(s.segments) == 0 {
		return nil
	}
	seg := &s.segments[len(s.segments)-1]
	out, err := f.files.OpenFile(f.file(s, segmentPrefix, seg.offset), os.O_WRONLY|nonblock, 0)
	if err == nil {
		err = errors.Join(firstError(func() error { return out.Truncate(seg.bytes) }, out.Sync),
			out.Close())
	}
	if err != nil {
		return f.fault("repairing the log of session "+s.id, err)
	}
	s.suspect = false
	return nil
}

// Get implements storage.Store.
func (f *Folder) Get(ctx context.Context, id string) (found storage.Session, err error) {
	err = f.with(ctx, id, func(s *session) error {
		found = s.describe()
		return nil
	})
	return found, err
}

// List implements storage.Store.
func (f *Folder) List(
	ctx context.Context, after string, limit int,
) (found []storage.Session, err error) {
	if limit < 1 {
		return nil, storage.Invalid("limit %d, expected 1 or more", limit)
	}
	if err := errors.Join(f.usable(), ctx.Err()); err != nil {
		return nil, err
	}
	ids := f.completeIDs()
	first, same := slices.BinarySearch(ids, after)
	if same {
		first++
	}
	for _, id := range ids[first:] {
		d, err := f.Get(ctx, id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue
		case errors.Is(err, storage.ErrUnavailable): // the error affects only this session
			d = storage.Session{ID: id, Err: err}
		case err != nil:
			return nil, err
		}
		if found = append(found, d); len(found) == limit {
			break
		}
	}
	return found, nil
}

// completeIDs returns the sorted ids of all complete sessions. Callers must not change the slice,
// because the store keeps it.
func (f *Folder) completeIDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids == nil {
		f.ids = slices.AppendSeq(make([]string, 0, len(f.complete)), maps.Keys(f.complete))
		slices.Sort(f.ids)
	}
	return f.ids
}

// SetHead implements storage.Store.
func (f *Folder) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := storage.CheckHead(head); err != nil {
		return err
	}
	return f.change(ctx, id, epoch, func(s *session) error {
		err := f.writeHead(s, headData{ID: id, Start: s.start}, head)
		if written(err) {
			s.head = append([]byte{}, head...)
		}
		return err
	})
}

func (f *Folder) writeHead(s *session, d headData, head []byte) error {
	return f.fault("writing the head of session "+s.id, f.rewrite(s, headName, encodeHead(d, head)))
}

// Delete implements storage.Store.
func (f *Folder) Delete(ctx context.Context, id string, epoch uint64) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.writing.RUnlock()
	removed := filepath.Join(f.path(removedName), fmt.Sprintf("%016x", rand.Uint64()))
	err := f.with(ctx, id, func(s *session) error {
		if epoch != 0 && s.epoch != epoch {
			return &storage.FencedError{Session: id, Have: s.epoch, Want: epoch}
		}
		if err := f.files.Rename(f.sessionPath(id), removed); err != nil {
			return f.fault("deleting session "+id, err)
		}
		s.gone = true
		f.usage.remove(s)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.sessions, id)
		delete(f.complete, id)
		f.ids = nil
		return nil
	})
	if err != nil {
		return err
	}
	return f.fault("erasing session "+id, f.erase(removed))
}

// erase overwrites and removes the folder of a deleted session, which was moved to the path
// removed. It also retries folders that earlier calls could not erase. It first syncs the move.
// Otherwise a power cut might bring back the session with zeros in its files.
func (f *Folder) erase(removed string) error {
	if err := f.files.SyncDir(f.path(sessionsName)); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.undone = append(f.undone, removed)
		return err
	}
	f.mu.Lock()
	all := append(f.undone, removed)
	f.undone = nil
	f.mu.Unlock()
	var err error
	for _, dir := range all {
		if failed := f.shredTree(dir); failed != nil {
			f.mu.Lock()
			f.undone = append(f.undone, dir)
			f.mu.Unlock()
			err = errors.Join(err, failed)
		}
	}
	return err
}

var _ storage.Store = (*Folder)(nil)
