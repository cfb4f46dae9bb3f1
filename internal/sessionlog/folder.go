package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	databaseName    = "lmserve.db"
	snapshotsFolder = "snapshots"
	temporarySuffix = ".tmp"
)

// Folder is the Store in a data folder: bbolt for what is small, files for snapshots.
type Folder struct {
	dir      string
	readOnly bool
	report   func(error) // nil: nobody is told
	environment
	db *bbolt.DB
	// locked and copies are the damaged database and the folder of its copy, if one is read.
	locked *bbolt.DB
	copies string

	queue   queue
	stopped chan struct{} // closed when the committer has returned

	// readers is held for reading by every read transaction; who has had it for writing knows that
	// those that began before are over.
	readers sync.RWMutex

	usage usage

	serving   bool
	compacted func(Compacted, error) // told of a compaction while the folder is open; nil: none is made

	held   holding // for a backup
	backup atomic.Pointer[Backup]

	failed   chan struct{}
	failOnce sync.Once
	err      error // set before failed is closed
}

// Options of Open.
type Options struct {
	ReadOnly bool // for tools: writes are refused, and several may read at the same time
	Existing bool // the folder must have sessions' data already; without it, one is made
	// Compacted, if there is one, is told that opening the folder has compacted lmserve.db, or why
	// it could not: then the file stays as it was, and the folder opens nevertheless.
	Compacted func(done Compacted, err error)
	// Serving is for who has the folder open for long: deletions compact lmserve.db, too, of which
	// Compacted is told, and go through on a disk without a byte left.
	Serving bool

	uncompacted bool // opening does not compact
	// Report is told what was found at opening and is no reason not to open: damage that was
	// contained, and entries of the folder that are not the store's. nil: nobody is told.
	Report func(error)
}

// Open opens a data folder, or makes one if it may write. It checks the structure of all of
// lmserve.db, but not the checksums of what is in it: reads do that as they go, and Check. ErrInUse
// if another process writes there (or, unless ReadOnly, reads).
func Open(dir string, o Options) (*Folder, error) { return open(dir, o, environment{files: osFiles{}}) }

// environment is what tests put themselves in between.
type environment struct {
	files    fileSystem
	opened   func(*bbolt.DB) // called before anything is done with it
	unsynced bool            // bbolt does not sync what it commits
}

func open(dir string, o Options, env environment) (_ *Folder, err error) {
	f := &Folder{dir: dir, readOnly: o.ReadOnly, report: o.Report, environment: env, stopped: make(chan struct{}), failed: make(chan struct{})}
	f.queue.wake = make(chan struct{}, 1)
	if f.serving = o.Serving; f.serving {
		f.compacted = o.told
	}
	if o.Existing {
		if _, err := os.Stat(f.path(databaseName)); err != nil {
			return nil, fmt.Errorf("sessionlog: %w", err)
		}
	}
	if !o.ReadOnly {
		if err := f.create(); err != nil {
			return nil, fmt.Errorf("sessionlog: making %s: %w", dir, err)
		}
	}
	if o.ReadOnly {
		if err := f.openReading(); err != nil {
			return nil, err
		}
		return f, nil
	}
	l, err := f.openWriting()
	if err != nil {
		return nil, err
	}
	if f.opened != nil {
		f.opened(f.db)
	}
	if err := f.tidy(l); err != nil {
		f.db.Close()
		return nil, err
	}
	if l.wasteful() && !o.uncompacted {
		if err := f.compactOpening(o); err != nil {
			f.db.Close()
			return nil, err
		}
	}
	if f.serving {
		f.keepReserve()
	}
	go f.commitAll()
	return f, nil
}

// openReading opens and locks lmserve.db for reading. Of a damaged one, it reads a copy of what is
// left, which is gone when the folder is closed.
func (f *Folder) openReading() error {
	db, err := f.bolt(true)
	if errors.Is(err, ErrInUse) || err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if _, damage := f.inspectAll(); damage == nil {
		f.db = db
		return nil
	} else if !errors.Is(damage, ErrCorrupt) {
		return errors.Join(damage, closeIf(db))
	}
	f.locked = db
	if f.copies, err = os.MkdirTemp("", "lmserve-*"); err != nil {
		return errors.Join(fmt.Errorf("sessionlog: %w", err), closeIf(db))
	}
	path := filepath.Join(f.copies, databaseName)
	if err = f.rebuild(path); err == nil {
		f.db, err = bbolt.Open(path, 0o600, f.boltOptions(true))
	}
	if err != nil {
		return errors.Join(err, f.closeReading())
	}
	return nil
}

// closeReading ends what openReading has begun.
func (f *Folder) closeReading() error {
	err := errors.Join(closeIf(f.db), closeIf(f.locked))
	if f.copies != "" {
		err = errors.Join(err, os.RemoveAll(f.copies))
	}
	return err
}

func closeIf(db *bbolt.DB) error {
	if db == nil {
		return nil
	}
	return db.Close()
}

// openWriting opens and locks lmserve.db for writing. A damaged one is rebuilt first: bbolt must not
// see a damaged page when it loads the file for writing, since some of what it then does cannot be
// caught. So it gets the lock for reading before, which looks at the two meta pages only.
func (f *Folder) openWriting() (l layout, err error) {
	db, err := f.bolt(true)
	if err == nil {
		l, err = f.inspectAll()
		err = errors.Join(err, db.Close())
	}
	if errors.Is(err, ErrCorrupt) {
		lock, err := f.mend()
		if err != nil {
			return l, err
		}
		defer lock.Close()
		l, err = f.inspectAll()
		if err != nil {
			return l, err
		}
	} else if err != nil {
		return l, err
	}
	f.db, err = f.bolt(false)
	return l, err
}

// path is that of a file of the folder.
func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (env *environment) boltOptions(readOnly bool) *bbolt.Options {
	return &bbolt.Options{
		ReadOnly: readOnly,
		NoSync:   env.unsynced,
		Timeout:  1, // do not wait for the lock
		PageSize: pageBytes,
		// Without the list of free pages there is less that has to be believed, and less to write
		// with every commit.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

// bolt opens and locks lmserve.db.
func (f *Folder) bolt(readOnly bool) (db *bbolt.DB, err error) {
	path := f.path(databaseName)
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, fmt.Errorf("sessionlog: %w", err) // bbolt would make one
	case !info.Mode().IsRegular(): // opening a pipe may wait for ever
		return nil, fmt.Errorf("sessionlog: %s is %v, expected a regular file", path, info.Mode())
	}
	options := f.boltOptions(readOnly)
	var opened *os.File
	options.OpenFile = func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
		opened, err = os.OpenFile(name, flag, perm)
		return opened, err
	}
	err = safely(func() (err error) {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if err == nil && !named(opened, path) {
		_ = db.Close() // nothing was written to it
		return nil, fmt.Errorf("sessionlog: %s: %w", path, ErrInUse)
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("sessionlog: %s: %w", path, ErrInUse)
	case err != nil:
		if _, damage := f.inspect(); damage != nil {
			return nil, damage // says more
		}
		return nil, fmt.Errorf("sessionlog: opening %s: %w", path, err)
	}
	return db, nil
}

// named tells whether a path is still that of an open file: between the opening and the lock, a
// compaction may have put another in its place.
func named(f *os.File, path string) bool {
	have, errHave := f.Stat()
	want, errWant := os.Stat(path)
	return errHave == nil && errWant == nil && os.SameFile(have, want)
}

// inspect checks the structure of lmserve.db and returns the first thing that is wrong with it.
func (f *Folder) inspect() (l layout, err error) {
	return f.inspectValues(func(string, []byte, []byte) error { return nil })
}

// inspectAll does so, and looks for records that stand under another key than their own: without
// them, their session's log would seem to end before them. It counts what the sessions take.
func (f *Folder) inspectAll() (l layout, err error) {
	var before []byte
	f.usage.reset()
	l, err = f.inspectValues(func(bucket string, key, value []byte) error {
		f.usage.count(bucket, key, value)
		if bucket == sessionBucket && len(value) > 0 { // an empty one is what a rebuilding has found
			if _, err := unseal(bucket, key, value); err != nil {
				return fmt.Errorf("session %.80q: %w", key, err)
			}
		}
		if bucket != logBucket {
			return nil
		}
		defer func() { before = append(before[:0], key...) }()
		_, err := unseal(bucket, key, value)
		id, _, broken := splitKey(key)
		if err == nil || broken == nil && bytes.HasPrefix(before, sessionPrefix(id)) {
			return nil // a damaged value in the midst of its session is found when it is read
		}
		return fmt.Errorf("record: %w", err)
	})
	f.usage.pages(int64(l.meta.pages), int64(l.meta.pages)-l.inUse())
	return l, err
}

func (f *Folder) inspectValues(good func(bucket string, key, value []byte) error) (l layout, err error) {
	err = f.withDatabase(func(db file, size int64) error {
		var first error
		visit := func(bucket string, key, value []byte, at int64) {
			if err := good(bucket, key, value); err != nil && first == nil {
				first = &CorruptError{File: databaseName, Byte: at, Offset: -1, What: err.Error()}
			}
		}
		l, _ = inspectPages(db, size, visit, func(damage *CorruptError) {
			if first == nil {
				first = damage
			}
		})
		return first
	})
	return l, err
}

// inspectMeta does so for the meta pages only.
func (f *Folder) inspectMeta() (m meta, err error) {
	err = f.withDatabase(func(db file, size int64) (damage error) {
		m, _ = readMeta(db, size, func(d *CorruptError) { damage = d })
		return damage
	})
	return m, err
}

// withDatabase opens lmserve.db for reading beside bbolt.
func (f *Folder) withDatabase(do func(db file, size int64) error) error {
	db, err := f.files.OpenFile(f.path(databaseName), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	defer db.Close()
	info, err := db.Stat()
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	return do(db, info.Size())
}

// create makes the folder, if it is not there, with a database that holds nothing.
func (f *Folder) create() error {
	for _, dir := range []string{f.dir, f.path(snapshotsFolder)} {
		if err := f.files.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	switch _, err := os.Stat(f.path(databaseName)); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	names, err := f.files.ReadDir(f.path(snapshotsFolder))
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), snapshotSuffix) {
			return &CorruptError{File: databaseName, Byte: -1, Offset: -1, What: "missing, though there is " + snapshotsFolder + "/" + n.Name()}
		}
	}
	temporary := f.path(temporaryName(databaseName))
	defer f.files.Remove(temporary)
	if err := f.createDatabase(temporary); err != nil {
		return err
	}
	// Not a rename: another process may have made its own in the meantime.
	if err := f.files.Link(temporary, f.path(databaseName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := f.files.SyncDir(f.dir); err != nil {
		return err
	}
	return f.files.SyncDir(filepath.Dir(filepath.Clean(f.dir)))
}

func (env *environment) createDatabase(path string) error {
	db, err := bbolt.Open(path, 0o600, env.boltOptions(false))
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(storeBucket)).Put([]byte(epochKey), encodeEpoch(0))
	})
	return errors.Join(err, db.Close())
}

func temporaryName(name string) string {
	return fmt.Sprintf("%s.%016x%s", name, rand.Uint64(), temporarySuffix)
}

// tidy removes what a process that was killed may have left: files that were never finished or
// never entered, and text of deleted sessions.
func (f *Folder) tidy(l layout) error {
	now, err := f.inspectMeta()
	if err != nil {
		return err
	}
	if now.txid != l.meta.txid { // somebody else wrote between the two locks
		return fmt.Errorf("sessionlog: %s: %w", f.path(databaseName), ErrInUse)
	}
	indexed, readable := map[string]bool{}, true
	err = f.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(snapshotBucket)).ForEach(func(key, value []byte) error {
			id, at, err := splitKey(key)
			if err == nil {
				_, err = decodeSnapshot(key, value, at)
			}
			indexed[snapshotName(id, at)] = true
			readable = readable && err == nil
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{".", snapshotsFolder} {
		names, err := f.files.ReadDir(f.path(dir))
		if err != nil {
			return fmt.Errorf("sessionlog: %w", err)
		}
		for _, n := range names {
			// With an entry that cannot be read, the file may be the snapshot that the entry is of.
			if !stray(dir, n.Name(), indexed) || !readable {
				continue
			}
			name := dir + "/" + n.Name()
			if !n.Type().IsRegular() { // nothing of the store's
				f.tell(foreign(name))
				continue
			}
			if err := f.shred(f.path(name)); err != nil {
				return err
			}
		}
	}
	return f.erase(l)
}

// foreign says that an entry of the folder has a leftover's name and is no file. It is left alone.
func foreign(name string) *CorruptError {
	return &CorruptError{
		File: path.Clean(name), Byte: -1, Offset: -1, Stray: true,
		What: "not a regular file, though it has the name of one that was never finished: left alone",
	}
}

// tell reports what was found at opening.
func (f *Folder) tell(err error) {
	if f.report != nil {
		f.report(err)
	}
}

// stray tells whether a file is a leftover.
func stray(dir, name string, indexed map[string]bool) bool {
	if dir == "." {
		return strings.HasPrefix(name, databaseName+".") && strings.HasSuffix(name, temporarySuffix)
	}
	return strings.HasSuffix(name, snapshotSuffix) && !indexed[name] ||
		strings.Contains(name, snapshotSuffix+".") && strings.HasSuffix(name, temporarySuffix)
}

// Durable implements Store: it is.
func (f *Folder) Durable() bool { return true }

// Failed implements Store.
func (f *Folder) Failed() <-chan struct{} { return f.failed }

// Err implements Store.
func (f *Folder) Err() error {
	select {
	case <-f.failed:
		return f.err
	default:
		return nil
	}
}

// fail ends the store, if it has not ended before, and returns the error that ended it.
func (f *Folder) fail(cause error) error {
	f.failOnce.Do(func() {
		f.err = fmt.Errorf("sessionlog: %s: %w: %w", f.dir, ErrFailed, cause)
		close(f.failed)
	})
	return f.err
}

// Close implements Store.
func (f *Folder) Close() error {
	if !f.queue.close() {
		return ErrClosed
	}
	if b := f.backup.Load(); b != nil {
		_ = b.Close() // what stays of it is removed when the folder is opened again
	}
	if f.readOnly {
		return f.closeReading()
	}
	f.queue.signal()
	<-f.stopped
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("sessionlog: closing %s: %w", f.path(databaseName), err)
	}
	return nil
}

// view reads. What do gets from the transaction is gone when it returns.
func (f *Folder) view(do func(tx *bbolt.Tx) error) error {
	if err := f.Err(); err != nil {
		return err
	}
	f.readers.RLock()
	defer f.readers.RUnlock()
	err := safely(func() error {
		tx, err := f.db.Begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return do(tx)
	})
	switch {
	case errors.As(err, new(*panicError)):
		return f.fail(ofPanic(err))
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return ErrClosed
	}
	return err
}

// panicError is a panic, bbolt's answer to a page that is not as it should be; or a fault, the
// system's to a page that cannot be read.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprint("bbolt: ", e.value) }

// ofPanic makes damage of a panic, whose cause is a page that is not as it should be, and leaves
// other errors as they are.
func ofPanic(err error) error {
	var broken *panicError
	if errors.As(err, &broken) {
		return &CorruptError{File: databaseName, Byte: -1, Offset: -1, What: broken.Error()}
	}
	return err
}

// safely turns a panic into an error.
func safely(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p}
		}
	}()
	return do()
}
