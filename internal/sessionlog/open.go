package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
)

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
		if f.place, err = os.Stat(dir); err != nil {
			return nil, fmt.Errorf("sessionlog: %w", err)
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
	if err := f.countEstates(); err != nil {
		f.db.Close()
		return nil, err
	}
	if l, err = f.tidy(l); err != nil {
		f.db.Close()
		return nil, err
	}
	if l.wasteful() && !o.uncompacted {
		if err := f.compactOpening(o.told); err != nil {
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
	// A database that survives a power cut is to have its folder of snapshots beside it.
	if err := f.files.SyncDir(f.dir); err != nil {
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

// tidy removes what a process that was killed may have left: files that were never finished or
// never entered, records that no session refers to, and text of deleted sessions. It gives the
// layout of the database as it then is.
func (f *Folder) tidy(l layout) (layout, error) {
	now, err := f.inspectMeta()
	if err != nil {
		return l, err
	}
	if now.txid != l.meta.txid { // somebody else wrote between the two locks
		return l, fmt.Errorf("sessionlog: %s: %w", f.path(databaseName), ErrInUse)
	}
	if err := f.removeStrays(); err != nil {
		return l, err
	}
	swept, err := f.sweepOpening()
	if err != nil {
		return l, err
	}
	if swept {
		if l, err = f.inspect(); err != nil {
			return l, err
		}
	}
	return l, f.erase(l)
}

// sweepOpening sweeps the leftovers of a process that was killed, and tells whether there were any.
// On a full disk they stay until something else can be written.
func (f *Folder) sweepOpening() (swept bool, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		f.sweep.parts = findLeftovers(tx)
		return nil
	})
	for err == nil && len(f.sweep.parts) > 0 {
		swept = true
		_, err = f.transactWithReserve(nil)
	}
	if errors.Is(err, ErrNoSpace) {
		f.sweep.stuck, err = true, nil
	}
	return swept, err
}

// removeStrays shreds files that were never finished or never entered.
func (f *Folder) removeStrays() error {
	indexed, readable := map[string]bool{}, true
	err := f.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(snapshotBucket)).ForEach(func(key, value []byte) error {
			id, at, err := splitKey(key)
			var kept Snapshot
			if err == nil {
				kept, err = decodeSnapshot(key, value, at)
			}
			indexed[snapshotName(kept.ownedBy(id), at)] = true
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
	return nil
}

// Durable implements Store: it is.
func (f *Folder) Durable() bool { return true }

// Failed implements Store.
func (f *Folder) Failed() <-chan struct{} { return f.failed }

// Close implements Store.
func (f *Folder) Close() error {
	if !f.queue.close() {
		return ErrClosed
	}
	if end := f.endBackup.Load(); end != nil {
		_ = (*end)() // what stays of it is removed when the folder is opened again
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

// Compact gives the free pages of lmserve.db back to the file system: it writes a new file with
// what is in use, and puts the new file in the old one's place when it is durable. Whenever the
// process ends, there is the old file or the new one, whole. ErrInUse if another process has the
// folder open. report is Options.Report. progress, unless it is nil, is told of the bytes done and
// of all, or of 0 as long as nobody knows these.
func Compact(
	ctx context.Context, dir string, report func(error), progress func(done, total int64),
) (Compacted, error) {
	return compact(ctx, dir, report, newWork(progress), environment{files: osFiles{}})
}

func compact(
	ctx context.Context, dir string, report func(error), work *work, env environment,
) (done Compacted, err error) {
	env.files = workFiles{env.files, work}
	f, err := open(dir, Options{Existing: true, Report: report, uncompacted: true}, env)
	if err != nil {
		return Compacted{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := ctx.Err(); err != nil {
		return Compacted{}, err
	}
	f.work = work
	return f.compact()
}

// told tells of a compaction whom it concerns.
func (o *Options) told(done Compacted, err error) {
	if o.Compacted != nil {
		o.Compacted(done, err)
	}
}

var _ Store = (*Folder)(nil)
