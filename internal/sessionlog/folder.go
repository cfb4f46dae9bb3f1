package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
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

// Folder is the Store in a data folder: bbolt for what is small, files for snapshots.
type Folder struct {
	dir      string
	place    os.FileInfo // of dir when it was opened for writing; nil: it was not
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
	work  *work // of a compaction that is told of

	serving   bool
	compacted func(Compacted, error) // told of a compaction while the folder is open; nil: none is made

	sweep sweep // the committer's

	held holding // for a backup
	// endBackup ends the backup that is under way; nil: there is none.
	endBackup atomic.Pointer[func() error]

	failed   chan struct{}
	failOnce sync.Once
	err      error // set before failed is closed
}

// environment is what tests put themselves in between.
type environment struct {
	files    fileSystem
	opened   func(*bbolt.DB) // called before anything is done with it
	unsynced bool            // bbolt does not sync what it commits
	// sweepBytes is how much one commit sweeps; 0: sweepBytesMax.
	sweepBytes int
}

func closeIf(db *bbolt.DB) error {
	if db == nil {
		return nil
	}
	return db.Close()
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
// them, their session's log would seem to end before them. It looks for damaged shares as well:
// without them, a deletion would take what others need. It counts what the sessions take.
func (f *Folder) inspectAll() (l layout, err error) {
	var before []byte
	f.usage.reset()
	l, err = f.inspectValues(func(bucket string, key, value []byte) error {
		f.usage.count(bucket, key, value)
		if bucket == shareBucket {
			_, err := decodeShare(key, value)
			return err
		}
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

func (f *Folder) inspectValues(good func(bucket string, key, value []byte) error) (layout, error) {
	return f.inspectFile(f.path(databaseName), good)
}

// inspectFile does so in a file that is to be lmserve.db.
func (f *Folder) inspectFile(
	path string, good func(bucket string, key, value []byte) error,
) (l layout, err error) {
	err = f.withFile(path, func(db file, size int64) error {
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
	return f.withFile(f.path(databaseName), do)
}

func (f *Folder) withFile(path string, do func(db file, size int64) error) error {
	db, err := f.files.OpenFile(path, os.O_RDONLY, 0)
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

// foreign says that an entry of the folder has a leftover's name and is no file. It is left alone.
func foreign(name string) *CorruptError {
	return &CorruptError{
		File: path.Clean(name), Byte: -1, Offset: -1, Stray: true,
		What: "not a regular file, though it has the name of one that was never finished: left alone",
	}
}

// inPlace makes sure that the folder still has its path. Of one that was moved away, or unmounted, the
// database is open and the snapshots seem to be lost: nothing is written before the folder is back.
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
	return fmt.Errorf("sessionlog: %w: %s: found %s, expected the data folder that was opened: move the "+
		"folder back, or mount it", ErrUnavailable, f.dir, found)
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

// Compacted is what a compaction has made of the size of lmserve.db, in bytes.
type Compacted struct{ Before, After int64 }
