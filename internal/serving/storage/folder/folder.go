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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"golang.org/x/sync/errgroup"
)

// Names in a data folder.
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

// Folder is the storage.Store in a data folder.
type Folder struct {
	dir      string
	place    fs.FileInfo // of dir when it was opened
	readOnly bool
	report   func(error) // nil: nobody is told
	files    fileSystem
	lock     *os.File

	// writing is held for reading by whatever changes files, and for writing by who needs that
	// nothing changes: a backup while it links, and Close.
	writing   sync.RWMutex
	unlinking sync.Mutex // see unlinkShared

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	ids      []string // of the sessions that are complete, in order; nil: not known
	complete map[string]bool
	epoch    uint64   // given out last
	bound    uint64   // epochs below it may be given out
	undone   []string // folders that could not be removed

	usage     usage
	temporary atomic.Int64 // bytes of files in the making
	backingUp atomic.Bool
	closing   chan struct{} // closed by Close
}

// Options of Open.
type Options struct {
	ReadOnly bool // for tools: writes are refused
	Existing bool // the folder must be there; without it, one is made
	// Report gets what was found at opening and is no reason not to open: damage, and entries that
	// are not the store's. nil: nobody is told.
	Report func(error)
}

// Open opens a data folder, or makes one. It reads the head and the last frame of every session;
// Read and ReadSnapshot verify the rest, and Check all. storage.ErrInUse if another process
// writes there.
func Open(dir string, o Options) (*Folder, error) { return open(dir, o, osFiles{}) }

func open(dir string, o Options, files fileSystem) (_ *Folder, err error) {
	f := newFolder(dir, o, files)
	defer func() {
		if err != nil {
			err = errors.Join(err, f.unlock())
		}
	}()
	if err := f.openDir(o); err != nil {
		return nil, err
	}
	if f.place, err = os.Stat(dir); err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	if err := f.loadEpoch(); err != nil {
		return nil, err
	}
	index := f.readIndex()
	if !f.readOnly {
		if err := f.removeIndex(); err != nil {
			return nil, err
		}
	}
	if err := f.loadAll(index); err != nil {
		return nil, fmt.Errorf("storage: opening %s: %w", dir, err)
	}
	if !f.readOnly {
		f.tidy()
	}
	return f, nil
}

func newFolder(dir string, o Options, files fileSystem) *Folder {
	f := &Folder{
		dir: dir, readOnly: o.ReadOnly, report: o.Report, files: files,
		sessions: map[string]*session{}, complete: map[string]bool{}, closing: make(chan struct{}),
	}
	if f.report == nil {
		f.report = func(error) {}
	}
	f.usage.init()
	return f
}

// openDir makes the folder if it is not there, locks it, and looks at its version.
func (f *Folder) openDir(o Options) error {
	version, err := f.read(f.path(versionName), 256)
	switch {
	case err == nil && string(version) != versionText:
		return fmt.Errorf("storage: %s: found %.40q, expected %q: it is of another version of lmserve",
			f.path(versionName), version, versionText)
	case err == nil:
		if _, err := os.Stat(f.path(sessionsName)); err != nil { // no store is empty because it looks so
			return fmt.Errorf("storage: %s: expected the folder of all sessions: %w",
				f.path(sessionsName), err)
		}
		if err := f.takeLock(); err != nil || o.ReadOnly {
			return err
		}
		return f.fault("making the folder", f.makeFolders(makingName, removedName, backupName))
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("storage: %w", err)
	}
	if _, err := os.Lstat(f.path(oldDatabase)); err == nil {
		return fmt.Errorf("storage: %s: found %s, expected %s: the folder is of a version of lmserve "+
			"from before sessions were folders, which this version cannot read", f.dir, oldDatabase, versionName)
	}
	if o.ReadOnly || o.Existing {
		return fmt.Errorf("storage: %w", err)
	}
	return f.makeDir()
}

func (f *Folder) makeDir() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("storage: making %s: %w", f.dir, err)
	}
	if err := f.takeLock(); err != nil {
		return err
	}
	return f.fault("making the folder", firstError(
		func() error { return f.makeFolders(sessionsName, makingName, removedName, backupName) },
		func() error { return f.files.SyncDir(filepath.Dir(f.dir)) },
		func() error { return f.files.SyncDir(f.dir) },
		func() error { return f.write(f.path(versionName), []byte(versionText)) }))
}

// makeFolders makes folders that are not there: an archive may have left out empty ones.
func (f *Folder) makeFolders(names ...string) error {
	for _, name := range names {
		if err := f.files.Mkdir(f.path(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// firstError does steps until one fails.
func firstError(steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// takeLock locks the folder: for writing alone, for reading with other readers.
func (f *Folder) takeLock() (err error) {
	flag := os.O_RDWR | os.O_CREATE
	if f.readOnly {
		flag = os.O_RDONLY | os.O_CREATE
	}
	if f.lock, err = os.OpenFile(f.path(lockName), flag, 0o600); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	held, err := lockFile(f.lock, !f.readOnly)
	if err == nil && !held {
		err = storage.ErrInUse
	}
	if err != nil {
		return fmt.Errorf("storage: %s: %w", f.dir, err)
	}
	return nil
}

func (f *Folder) unlock() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// epochsReserved is how many epochs are reserved with one write.
const epochsReserved = 1 << 16

func (f *Folder) loadEpoch() error {
	b, err := f.read(f.path(epochName), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	n, ok := parseName(strings.TrimSuffix(string(b), "\n"), "")
	if !ok {
		return &storage.CorruptError{File: epochName, Byte: 0, Offset: -1,
			What: fmt.Sprintf("%.40q, expected 16 hexadecimal digits and a newline", b)}
	}
	f.epoch, f.bound = n, n
	return nil
}

// nextEpoch gives out an epoch that was never given out.
func (f *Folder) nextEpoch() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch+1 >= f.bound {
		bound := f.epoch + epochsReserved
		if err := f.write(f.path(epochName), []byte(hexName("", bound)+"\n")); err != nil {
			return 0, f.fault("reserving epochs", err)
		}
		f.bound = bound
	}
	f.epoch++
	return f.epoch, nil
}

// loadersMax is how many sessions are read at once.
const loadersMax = 16

// loadAll reads all sessions that the index does not have as they are.
func (f *Folder) loadAll(index map[string]indexed) error {
	entries, err := f.files.ReadDir(f.path(sessionsName))
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(loadersMax)
	for _, e := range entries {
		id := e.Name()
		if storage.CheckID(id) != nil || !e.IsDir() {
			f.report(&storage.CorruptError{File: sessionsName + "/" + id, Byte: -1, Offset: -1,
				Stray: true, What: "not a folder of a session: left alone"})
			continue
		}
		group.Go(func() error {
			var s *session
			if x, ok := index[id]; ok {
				s = f.fromIndex(x)
			}
			if s == nil {
				loaded, err := f.load(id)
				if err != nil {
					return err
				}
				s = loaded
			}
			if s.damage != nil {
				f.report(s.damage)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sessions[id], f.complete[id] = s, true
			f.epoch = max(f.epoch, s.epoch)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(f.sessions)) {
		f.usage.add(f.sessions[id])
	}
	return nil
}

// tidy removes what a process that was killed has left.
func (f *Folder) tidy() {
	for _, name := range []string{makingName, removedName, backupName} {
		entries, err := f.files.ReadDir(f.path(name))
		for _, e := range entries {
			err = errors.Join(err, f.shredTree(filepath.Join(f.path(name), e.Name())))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.report(f.fault("removing what was left in "+name, err))
		}
	}
	entries, err := f.files.ReadDir(f.dir)
	for _, e := range entries {
		own, _, _ := strings.Cut(e.Name(), ".")
		isOwn := own == versionName || own == epochName || own == indexName
		if isOwn && strings.HasSuffix(e.Name(), temporary) {
			err = errors.Join(err, f.shred(f.path(e.Name())))
		}
	}
	if err != nil {
		f.report(f.fault("removing what was left", err))
	}
	for _, s := range f.sessions {
		if s.damage != nil || len(s.leftovers) == 0 {
			continue
		}
		if err := f.mend(s); err != nil {
			f.report(err)
		}
	}
}

// inPlace makes sure that the folder still has its path.
func (f *Folder) inPlace() error {
	if f.place == nil { // an archive
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
		"the folder back, or mount it", storage.ErrUnavailable, f.dir, found)
}

// fault is an error of the file system: storage.ErrNoSpace, or storage.ErrUnavailable, since
// the next call may succeed. Nothing was written. The error concerns the call's session alone: its
// log is cut back to what was acknowledged, by writeFrame at once or, if the disk refuses that as
// well, by mend before the session's next write.
func (f *Folder) fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrUnknown):
		return fmt.Errorf("storage: %s: %w", doing, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("storage: %s: %w: %w", doing, storage.ErrNoSpace, err)
	case errors.Is(err, fs.ErrNotExist):
		if away := f.inPlace(); away != nil {
			return away
		}
	}
	return fmt.Errorf("storage: %s: %w: %w", doing, storage.ErrUnavailable, err)
}

// enter begins a call that changes something; the caller calls f.writing.RUnlock if there is no
// error.
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

// with calls do with a session, under its lock.
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
	if s.gone {
		return storage.NotFound(id)
	}
	return do(s)
}

// change calls do with a session that the epoch lets the caller write to, under its lock.
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

// Durable implements storage.Store: it is.
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

// make enters a session whose folder fill completes.
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
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		s.gone = true
		delete(f.sessions, s.id)
		return 0, errors.Join(f.fault("making session "+s.id, err), f.shredTree(made))
	}
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

// fillEmpty makes an empty file, which need not be durable.
func (f *Folder) fillEmpty(path string) error {
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return out.Close()
}

// Claim implements storage.Store. The claim is a file's name, whose change is not waited for to
// reach the disk: after a cut of power nobody has the epoch of before, and none is given out again.
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

// noteClaim notes an epoch and the log's end in the name of a file.
func (f *Folder) noteClaim(s *session, epoch uint64) error {
	dir := f.sessionPath(s.id)
	to := filepath.Join(dir, claimName(epoch, s.end))
	err := f.files.Rename(filepath.Join(dir, claimName(s.epoch, s.claimed)), to)
	if errors.Is(err, fs.ErrNotExist) { // of a folder that a person has made of an archive, say
		err = f.fillEmpty(to)
	}
	if err == nil {
		s.epoch, s.claimed = epoch, s.end
	}
	return err
}

// mend removes what a killed process, a cut of power or a failed write has left of a session's files.
func (f *Folder) mend(s *session) error {
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
		err = errors.Join(firstError(func() error { return out.Truncate(seg.bytes) }, out.Sync), out.Close())
	}
	if err != nil {
		return f.fault("mending the log of session "+s.id, err)
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
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found = append(found, d); len(found) == limit {
			break
		}
	}
	return found, nil
}

// completeIDs are the ids of all sessions, in order. Nobody changes the slice.
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
	path := filepath.Join(f.sessionPath(s.id), headName)
	return f.fault("writing the head of session "+s.id, f.write(path, encodeHead(d, head)))
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
		f.ids, f.undone = nil, append(f.undone, removed)
		return nil
	})
	if err != nil {
		return err
	}
	err = f.files.SyncDir(f.path(sessionsName))
	f.mu.Lock()
	undone := f.undone
	f.undone = nil
	f.mu.Unlock()
	for n, dir := range undone {
		if failed := f.shredTree(dir); failed != nil {
			f.mu.Lock()
			f.undone = append(f.undone, undone[n])
			f.mu.Unlock()
			err = errors.Join(err, failed)
		}
	}
	return f.fault("erasing session "+id, err)
}

// Close implements storage.Store.
func (f *Folder) Close() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return storage.ErrClosed
	}
	f.closed = true
	close(f.closing)
	f.mu.Unlock()
	var err error
	if !f.readOnly && f.inPlace() == nil {
		for _, s := range f.sessions {
			if s.damage == nil && s.end != s.claimed {
				err = errors.Join(err, f.noteClaim(s, s.epoch))
			}
		}
		err = f.fault("closing the folder", errors.Join(err, f.writeIndex()))
	}
	return errors.Join(err, f.unlock())
}

var _ storage.Store = (*Folder)(nil)
