package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

const (
	// CompactFreeMin is how many bytes of lmserve.db have to be free, and more than half of it, for
	// the file to be compacted when the folder is opened for writing.
	CompactFreeMin = 64 << 20
	// compactBytes is the size of the transactions in which a compacted file is written.
	compactBytes = 4 << 20
)

// Compacted is what a compaction has made of the size of lmserve.db, in bytes.
type Compacted struct{ Before, After int64 }

// Compact gives the free pages of lmserve.db back to the file system: it writes a new file with
// what is in use, and puts the new file in the old one's place when it is durable. Whenever the
// process ends, there is the old file or the new one, whole. ErrInUse if another process has the
// folder open. report is Options.Report.
func Compact(ctx context.Context, dir string, report func(error)) (Compacted, error) {
	return compact(ctx, dir, report, environment{files: osFiles{}})
}

func compact(
	ctx context.Context, dir string, report func(error), env environment,
) (done Compacted, err error) {
	f, err := open(dir, Options{Existing: true, Report: report, uncompacted: true}, env)
	if err != nil {
		return Compacted{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := ctx.Err(); err != nil {
		return Compacted{}, err
	}
	return f.compact()
}

// wasteful tells whether a file has so many free pages that it is worth while to compact it.
func (l *layout) wasteful() bool {
	free := l.size - l.inUse()*pageBytes
	return free > CompactFreeMin && free > l.size/2
}

// inUse is the number of pages that are in use.
func (l *layout) inUse() (n int64) {
	for _, used := range l.used {
		if used {
			n++
		}
	}
	return n
}

// compact puts a new lmserve.db in the place of the one that is open. Nothing may be written
// meanwhile, nor later if done says that the new file is in place, whatever the error: the open
// database is the old file's.
func (f *Folder) compact() (done Compacted, err error) {
	failed := func(err error) (Compacted, error) {
		if noSpace(err) {
			err = fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		return done, fmt.Errorf("sessionlog: compacting %s: %w", f.path(databaseName), err)
	}
	before, err := os.Stat(f.path(databaseName))
	if err != nil {
		return failed(err)
	}
	temporary := f.path(temporaryName(databaseName))
	defer f.files.Remove(temporary) // if it still has that name
	if err := f.writeCompacted(temporary); err != nil {
		return failed(err)
	}
	after, err := os.Stat(temporary)
	if err != nil {
		return failed(err)
	}
	// A damaged page that bbolt has read without noticing would be lost with the old file.
	if err := f.verifyCompacted(temporary); err != nil {
		return failed(err)
	}
	// The old file keeps a name until what stands in it is overwritten.
	old := f.path(temporaryName(databaseName))
	if err := f.files.Link(f.path(databaseName), old); err != nil {
		return failed(err)
	}
	if err := f.files.Rename(temporary, f.path(databaseName)); err != nil {
		return failed(errors.Join(err, f.files.Remove(old)))
	}
	done = Compacted{Before: before.Size(), After: after.Size()}
	if err := f.files.SyncDir(f.dir); err != nil {
		return failed(err)
	}
	if err := f.shred(old); err != nil {
		return failed(err)
	}
	return done, nil
}

// compactOpening compacts lmserve.db and opens the new file. The error is that no file is open that
// could be written to.
func (f *Folder) compactOpening(o Options) error {
	done, err := f.compact()
	if o.Compacted != nil {
		o.Compacted(done, err)
	}
	if done == (Compacted{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	if f.db, err = f.bolt(false); err != nil {
		return err
	}
	if f.opened != nil {
		f.opened(f.db)
	}
	return f.countPages()
}

// writeCompacted writes what is in use to a new file, which is durable when it returns.
func (f *Folder) writeCompacted(path string) error {
	options := f.boltOptions(false)
	options.NoSync = true // one sync at the end is enough for a file that nobody relies on yet
	to, err := bbolt.Open(path, 0o600, options)
	if err != nil {
		return err
	}
	err = safely(func() error { return bbolt.Compact(to, f.db, compactBytes) })
	if err == nil && !f.unsynced {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// verifyCompacted compares the buckets of a new file with those of the open one, by the number of
// their keys, and checks the new file's structure.
func (f *Folder) verifyCompacted(path string) error {
	have, want := map[string]int{}, map[string]int{}
	in, err := f.files.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	var first error
	_, err = inspectPages(in, info.Size(), func(bucket string, _, _ []byte, _ int64) { have[bucket]++ },
		func(damage *CorruptError) {
			if first == nil {
				first = damage
			}
		})
	if err != nil {
		return errors.Join(first, err)
	}
	err = f.withDatabase(func(db file, size int64) error {
		_, err := inspectPages(db, size, func(bucket string, _, _ []byte, _ int64) { want[bucket]++ },
			func(*CorruptError) {})
		return err
	})
	if err != nil {
		return err
	}
	for bucket := range want {
		if have[bucket] != want[bucket] {
			return fmt.Errorf("bucket %s has %d keys in the new file, expected %d", bucket, have[bucket], want[bucket])
		}
	}
	return nil
}
