package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"golang.org/x/sync/errgroup"
)

// Options are the options of Open.
type Options struct {
	ReadOnly bool
	Existing bool // the folder must exist; if false, Open creates a missing folder
	// Report receives problems of the folder that make no call fail: damage, and files that the
	// store did not write. Its calls do not overlap. It may be nil.
	Report func(error)
}

// Open opens a data folder, or creates it. Open verifies only the head and the last frame of each
// session. Read and ReadSnapshot verify the data that they return, and Check verifies everything.
// The error is storage.ErrInUse if another process has the folder open for writing.
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
		// A killed process may have changed names without a sync. The names must be durable before
		// a caller relies on them.
		err := firstError(f.removeIndex, func() error { return f.files.SyncDir(f.dir) },
			func() error { return f.files.SyncDir(f.path(sessionsName)) })
		if err != nil {
			return nil, f.fault("opening the folder", err)
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
		dir: dir, readOnly: o.ReadOnly, files: files,
		sessions: map[string]*session{}, complete: map[string]bool{}, closing: make(chan struct{}),
	}
	var reporting sync.Mutex
	f.report = func(err error) {
		reporting.Lock()
		defer reporting.Unlock()
		if o.Report != nil {
			o.Report(err)
		}
	}
	f.usage.init()
	return f
}

// openDir creates the folder if it does not exist, locks the folder, and checks its version.
func (f *Folder) openDir(o Options) error {
	version, err := f.read(f.path(versionName), 256)
	switch {
	case err == nil && string(version) != versionText:
		return fmt.Errorf("storage: %s: found %.40q, expected %q: the folder is from another "+
			"version of lmserve",
			f.path(versionName), version, versionText)
	case err == nil:
		// If the folder of sessions is missing, the store is damaged or not mounted. It must not be
		// taken for an empty store.
		if _, err := os.Stat(f.path(sessionsName)); err != nil {
			return fmt.Errorf("storage: %s: expected a folder that contains all sessions: %w",
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
		return fmt.Errorf("storage: %s: found %s, expected %s: the folder is from an old version "+
			"of lmserve, before sessions were folders; this version cannot read "+
			"it", f.dir, oldDatabase,
			versionName)
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
		func() error { _, err := f.write(f.path(versionName), []byte(versionText)); return err }))
}

// makeFolders creates missing folders. An archive may have left out empty folders.
func (f *Folder) makeFolders(names ...string) error {
	for _, name := range names {
		if err := f.files.Mkdir(f.path(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// takeLock locks the folder. The lock is exclusive for a store that writes, and shared among
// readers.
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

// loadEpoch reads a bound that is greater than all epochs given out so far. If the file is damaged
// or unreadable, loadEpoch uses epochLost, so that the damage makes no session unusable.
func (f *Folder) loadEpoch() error {
	b, err := f.read(f.path(epochName), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("storage: %w", err)
	}
	n, ok := parseName(strings.TrimSuffix(string(b), "\n"), "")
	if err == nil && (!ok || n > epochMax) {
		err = fmt.Errorf("%.40q, expected 16 hexadecimal digits of at most %x, and a newline", b,
			uint64(epochMax))
	}
	if err != nil {
		f.report(&storage.CorruptError{File: epochName, Byte: 0, Offset: -1, What: err.Error()})
		n = epochLost
	}
	f.epoch, f.bound = n, n
	return nil
}

const (
	// epochLost is greater than every epoch that a data folder reserves in practice.
	epochLost = 1 << 48
	epochMax  = 1 << 56 // a greater number in the file "epoch" is damage
)

const loadersMax = 16

// loadAll loads all sessions. It reads the files of a session only if the index has no entry, or an
// outdated entry, for the session.
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
				Stray: true, What: "not a folder of a session; ignored"})
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
				s.unsynced = true
				// Open syncs many sessions at once, which is faster than a sync at the first use of
				// each session.
				if err := f.settle(s); err != nil {
					f.report(err)
				}
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

// ownFolder matches the names of the store's temporary folders.
var ownFolder = regexp.MustCompile(`^[0-9a-f]{16}([0-9a-f]{16})?$`)

func isOwnFolder(e fs.DirEntry) bool { return e.IsDir() && ownFolder.MatchString(e.Name()) }

// tidy removes the temporary files and folders of a killed process, and reports foreign files in
// their place.
func (f *Folder) tidy() {
	for _, name := range []string{makingName, removedName, backupName} {
		entries, err := f.files.ReadDir(f.path(name))
		for _, e := range entries {
			path := filepath.Join(f.path(name), e.Name())
			if isOwnFolder(e) {
				err = errors.Join(err, f.shredTree(path))
			} else {
				f.report(fmt.Errorf("%s is not a file that lmserve wrote, and is left "+
					"unchanged", path))
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.report(f.fault("removing remains in "+name, err))
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
		f.report(f.fault("removing remains", err))
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

// Close implements storage.Store. It also waits for calls that have locked a session, and ends the
// backup.
func (f *Folder) Close() error {
	f.snapshotting.Lock()
	defer f.snapshotting.Unlock()
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
	for _, s := range f.sessions { // wait for calls that began before the folder was closed
		s.lock <- struct{}{}
		s.release()
	}
	var err error
	if b := f.backup.Load(); b != nil {
		err = b.Close()
	}
	if !f.readOnly && f.inPlace() == nil {
		for _, s := range f.sessions {
			if s.damage == nil && !s.unsynced && s.end != s.claimed {
				err = errors.Join(err, f.noteClaim(s, s.epoch))
			}
		}
		err = f.fault("closing the folder", errors.Join(err, f.writeIndex()))
	}
	return errors.Join(err, f.unlock())
}
