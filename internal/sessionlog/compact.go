package sessionlog

import (
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
	// compactServingMax is how many bytes may be in use in a file that is compacted while sessions
	// are fed from it. Feeding waits meanwhile: 7.5 seconds for 235 MB on two busy cores.
	compactServingMax = 128 << 20
)

// compact puts a new lmserve.db in the place of the one that is open. Nothing may be written
// meanwhile, nor later if done says that the new file is in place, whatever the error: the open
// database is the old file's.
func (f *Folder) compact() (done Compacted, err error) {
	unfinished := f.path(temporaryName(databaseName))
	defer f.files.Remove(unfinished) // if it still has that name
	use := f.usage.database()
	f.work.expect(3*use.Database + use.Database + use.Free) // written, read twice; overwritten
	err = f.writeCompacted(unfinished)
	if err == nil {
		// A damaged page that bbolt has read without noticing would be lost with the old file.
		err = f.verifyCompacted(unfinished)
	}
	old := ""
	if err == nil {
		done, old, err = f.replace(unfinished)
	}
	if err == nil {
		err = f.shred(old)
	}
	return done, f.compactFailed(err)
}

// compactFailed says what has failed; nil: nothing has.
func (f *Folder) compactFailed(err error) error {
	if err == nil {
		return nil
	}
	if noSpace(err) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("sessionlog: compacting %s: %w", f.path(databaseName), err)
}

// replace puts a file in the place of lmserve.db. The old one keeps a name until what stands in it
// is overwritten. If done tells of sizes, the new file is in place, whatever the error.
func (f *Folder) replace(by string) (done Compacted, old string, err error) {
	before, err := os.Stat(f.path(databaseName))
	if err != nil {
		return done, "", err
	}
	after, err := os.Stat(by)
	if err != nil {
		return done, "", err
	}
	old = f.path(temporaryName(databaseName))
	if err := f.files.Link(f.path(databaseName), old); err != nil {
		return done, "", err
	}
	if err := f.files.Rename(by, f.path(databaseName)); err != nil {
		return done, "", errors.Join(err, f.files.Remove(old))
	}
	return Compacted{Before: before.Size(), After: after.Size()}, old, f.files.SyncDir(f.dir)
}

// compactServing compacts lmserve.db while the folder is in use, if that is worth while and the file
// is small enough. It is the committer's: no commit may be under way. Reading goes on but for the
// moment at which the new file takes the old one's place. l is the layout of the file, of which all
// that is not in use was overwritten. While there is a backup nothing is done, and a backup waits
// for a compaction. After one that has failed, there are no more.
func (f *Folder) compactServing(l layout) {
	if f.compacted == nil || !l.wasteful() || l.inUse()*pageBytes > compactServingMax {
		return
	}
	f.held.unlessHeld(func() {
		done, err := f.exchange(l)
		f.compacted(done, f.compactFailed(err))
		if err != nil { // it would fail with every deletion
			f.compacted = nil
		}
	})
}

// exchange is compact for an open folder, which goes on with the new file.
func (f *Folder) exchange(l layout) (done Compacted, err error) {
	unfinished := f.path(temporaryName(databaseName))
	defer f.files.Remove(unfinished) // if it still has that name
	if err := f.writeCompacted(unfinished); err != nil {
		return done, err
	}
	if err := f.verifyCompacted(unfinished); err != nil {
		return done, err
	}
	// The new file is locked before it has its name: no other process gets between.
	db, err := bbolt.Open(unfinished, 0o600, f.boltOptions(false))
	if err != nil {
		return done, err
	}
	done, old, err := f.replace(unfinished)
	if done == (Compacted{}) {
		return done, errors.Join(err, db.Close())
	}
	if f.opened != nil {
		f.opened(db)
	}
	f.readers.Lock()
	db, f.db = f.db, db
	f.readers.Unlock()
	if err := errors.Join(err, db.Close()); err != nil {
		return done, f.fail(err) // nobody knows which file the next start will find
	}
	if err := f.countPages(); err != nil {
		return done, f.fail(err)
	}
	return done, errors.Join(f.zeroUsed(old, l), f.unlink(old))
}

// zeroUsed overwrites the pages of a file that are in use.
func (f *Folder) zeroUsed(path string, l layout) error {
	unused := l
	unused.used = make([]bool, len(l.used))
	for page, used := range l.used {
		unused.used[page] = !used
	}
	unused.size = int64(len(l.used)) * pageBytes
	return f.eraseIn(path, unused)
}

// compactOpening compacts lmserve.db and opens the new file. The error is that no file is open that
// could be written to.
func (f *Folder) compactOpening(told func(Compacted, error)) error {
	done, err := f.compact()
	told(done, err)
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
	written := f.work.growing(path, f.usage.database().Database)
	err = safely(func() error { return bbolt.Compact(to, f.db, compactBytes) })
	written()
	if err == nil && !f.unsynced {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// verifyCompacted compares the buckets of a new file with those of the open one, by the number of
// their keys, and checks the new file's structure.
func (f *Folder) verifyCompacted(path string) error {
	have, want := map[string]int{}, map[string]int{}
	count := func(keys map[string]int) func(string, []byte, []byte) error {
		return func(bucket string, _, _ []byte) error {
			keys[bucket]++
			return nil
		}
	}
	if _, err := f.inspectFile(path, count(have)); err != nil {
		return err
	}
	if _, err := f.inspectFile(f.path(databaseName), count(want)); err != nil {
		return err
	}
	for bucket := range want {
		if have[bucket] != want[bucket] {
			return fmt.Errorf("bucket %s has %d keys in the new file, expected %d", bucket, have[bucket], want[bucket])
		}
	}
	return nil
}

// wasteful tells whether a file has so many free pages that it is worth while to compact it.
func (l *layout) wasteful() bool {
	free := l.size - l.inUse()*pageBytes
	return free > CompactFreeMin && free > l.size/2
}
