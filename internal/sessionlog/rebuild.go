package sessionlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// rebuildBytes is how much is written in one transaction of a rebuilding.
const rebuildBytes = 8 << 20

// rebuilder writes what was salvaged into a new database.
type rebuilder struct {
	from *salvager
	// part chooses what of a session is written, and changes its damage to what the new database is
	// to say of it; false: nothing.
	part     func(x *remains) (ok bool, err error)
	progress func(done, all int64)

	db    *bbolt.DB
	tx    *bbolt.Tx
	bytes int // written in tx
	done  int64
}

// write makes the database at a path, synced.
func (b *rebuilder) write(env *environment, path string) (err error) {
	if err := env.createDatabase(path); err != nil {
		return fmt.Errorf("sessionlog: rebuilding: %w", err)
	}
	if b.db, err = bbolt.Open(path, 0o600, env.boltOptions(false)); err != nil {
		return fmt.Errorf("sessionlog: rebuilding: %w", err)
	}
	err = safely(func() error { return b.all() })
	if b.tx != nil {
		_ = b.tx.Rollback() // the first error says more
	}
	if err := errors.Join(err, b.db.Close()); err != nil {
		return fmt.Errorf("sessionlog: rebuilding: %w", err)
	}
	return nil
}

func (b *rebuilder) all() (err error) {
	if b.tx, err = b.db.Begin(true); err != nil {
		return err
	}
	epoch := encodeEpoch(b.from.epoch)
	if err := b.put(storeBucket, []byte(epochKey), epoch); err != nil {
		return err
	}
	needed := map[string][]extent{} // by the id that records stand under
	var rows []share
	all := slices.Sorted(maps.Keys(b.from.found))
	for _, id := range all {
		x := b.from.found[id]
		if x.leftover {
			continue
		}
		if x.kept, err = b.part(x); err != nil {
			return err
		}
		if !x.kept {
			continue
		}
		for _, p := range x.uses() {
			needed[p.owner] = append(needed[p.owner], p.extent)
		}
		rows = append(rows, x.entry.shares(id, x.index())...)
	}
	for _, id := range all {
		x := b.from.found[id]
		x.records = x.inside(union(needed[id]))
		if err := b.session(x); err != nil {
			return err
		}
	}
	if err := b.shares(rows); err != nil {
		return err
	}
	tx := b.tx
	b.tx = nil
	return tx.Commit()
}

// shares writes the rows that follow from the entries.
func (b *rebuilder) shares(rows []share) error {
	sorted := make([]keyed, len(rows))
	for n := range rows {
		sorted[n].key, sorted[n].value = encodeShare(&rows[n])
	}
	slices.SortFunc(sorted, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	for _, row := range sorted {
		if err := b.put(shareBucket, row.key, row.value); err != nil {
			return err
		}
	}
	return nil
}

// session writes what is kept under an id.
func (b *rebuilder) session(x *remains) error {
	for _, r := range x.records {
		value, err := b.from.read(r.place)
		if err != nil {
			return err
		}
		if err := b.put(logBucket, offsetKey(x.id, r.offset), value); err != nil {
			return err
		}
		b.done += int64(r.size)
		b.progress(min(b.done, b.from.size), b.from.size)
	}
	if !x.kept {
		return nil
	}
	if err := b.entry(x); err != nil {
		return err
	}
	for n := range x.snapshots {
		key := offsetKey(x.id, x.snapshots[n].Offset)
		err := b.put(snapshotBucket, key, encodeSnapshot(key, &x.snapshots[n].Snapshot))
		if err != nil {
			return err
		}
	}
	if len(x.damage) == 0 {
		return nil
	}
	return b.put(damageBucket, []byte(x.id), encodeMark(x.id, markOf(x.damage)))
}

func (b *rebuilder) entry(x *remains) error {
	var value []byte // of a session without one: listed, with an error
	if x.head != nil {
		found, err := b.from.read(*x.head)
		if err != nil {
			return err
		}
		old, err := decodeEntry([]byte(x.id), found)
		if err != nil {
			return corruptEntry(x.id, err)
		}
		e := x.entry
		e.head = old.head
		value = encodeEntry(x.id, e)
	}
	return b.put(sessionBucket, []byte(x.id), value)
}

const touched = "touched by damage: "

// markOf puts what has happened to a session into words.
func markOf(damage []*CorruptError) string {
	words := touched + strings.TrimPrefix(damage[0].What, touched)
	if damage[0].Byte >= 0 {
		words += fmt.Sprintf(" (byte %d of the database that was damaged)", damage[0].Byte)
	}
	if n := len(damage) - 1; n > 0 {
		words += fmt.Sprintf("; and %d findings more", n)
	}
	return words
}

func (b *rebuilder) put(bucket string, key, value []byte) (err error) {
	if b.bytes > rebuildBytes {
		tx := b.tx
		b.tx = nil
		if err := tx.Commit(); err != nil {
			return err
		}
		if b.tx, err = b.db.Begin(true); err != nil {
			return err
		}
		b.bytes = 0
	}
	to, err := b.tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	to.FillPercent = appendFill
	b.bytes += len(key) + len(value)
	return to.Put(key, value)
}

// rebuildLockName is the file whose lock lets one process at a time rebuild.
const rebuildLockName = databaseName + ".rebuilding" + temporarySuffix

// lockRebuilding gets that lock, which is bbolt's of a database of its own. What is in the file does
// not count: a power cut may leave it torn, and then the file is begun anew.
func (f *Folder) lockRebuilding() (lock *bbolt.DB, err error) {
	path := f.path(rebuildLockName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("sessionlog: %s is %v, expected a regular file", path, info.Mode())
	}
	open := func() error {
		return safely(func() (err error) {
			lock, err = bbolt.Open(path, 0o600, f.boltOptions(false))
			return err
		})
	}
	if err = open(); err != nil && !errors.Is(err, bolterrors.ErrTimeout) {
		if err = os.Truncate(path, 0); err == nil { // it stays the same file, whoever locks it
			err = open()
		}
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("sessionlog: %s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("sessionlog: %w", err)
	}
	return lock, nil
}

// mend replaces a database whose structure is damaged by one that holds what is left of it. The
// damaged one keeps its bytes under another name. It reports what was lost. The lock that it returns
// is to be closed when the new database is locked.
func (f *Folder) mend() (lock *bbolt.DB, err error) {
	if lock, err = f.lockRebuilding(); err != nil {
		return nil, err
	}
	// Another process may have mended it, while this one waited.
	if _, err := f.inspectAll(); !errors.Is(err, ErrCorrupt) {
		return lock, err
	}
	temporary := f.path(temporaryName(databaseName))
	if err := f.rebuild(temporary); err != nil {
		_ = f.shred(temporary)
		return nil, errors.Join(err, lock.Close())
	}
	kept, err := f.keepDamaged()
	if err == nil {
		err = f.files.Rename(temporary, f.path(databaseName))
	}
	if err == nil {
		err = f.files.SyncDir(f.dir)
	}
	if err != nil {
		_ = f.shred(temporary)
		return nil, errors.Join(fmt.Errorf("sessionlog: rebuilding: %w", err), lock.Close())
	}
	f.tell(fmt.Errorf("sessionlog: %s was damaged and has been rebuilt; the damaged file is kept as %s",
		f.path(databaseName), kept))
	return lock, nil
}

// keepDamaged gives the damaged database another name beside the one that it has.
func (f *Folder) keepDamaged() (path string, err error) {
	for n := 1; ; n++ {
		path = f.path(fmt.Sprintf("%s.damaged-%d", databaseName, n))
		if err := f.files.Link(f.path(databaseName), path); !errors.Is(err, os.ErrExist) {
			return path, err
		}
	}
}

// rebuild salvages the database into a new one at a path. It refuses if nothing is left to salvage,
// unless nothing was lost: then there were no sessions.
func (f *Folder) rebuild(path string) error {
	return f.withDatabase(func(db file, size int64) error {
		s := salvage(db, size, func(d *CorruptError) { f.tell(d) }, func(int64, int64) {})
		if len(s.found) == 0 && s.isDamaged() {
			_, err := f.inspect()
			return err
		}
		if err := f.unindexed(s); err != nil {
			return err
		}
		looked := map[Snapshot]error{}
		b := &rebuilder{from: s, progress: func(int64, int64) {}, part: func(x *remains) (bool, error) {
			f.adopt(x, looked)
			s.dropMissingEnd(x)
			for _, d := range x.damage {
				f.tell(d)
			}
			return true, nil
		}}
		return b.write(&f.environment, path)
	})
}

// dropMissingEnd ends a log that ends with pieces of others where these are found. Own records that
// were lost there cannot be told from records that never were.
func (s *salvager) dropMissingEnd(x *remains) {
	end := x.entry.start
	if found := s.covered(x); len(found) > 0 {
		end = found[len(found)-1].to
	}
	if end < x.entry.own() {
		x.keep(x.entry.start, end)
	}
}

// adopt leaves out snapshots that were found elsewhere than in the newest tree, if their files are
// not what the entry says: they may have been dropped since. It looks once at every file.
func (f *Folder) adopt(x *remains, looked map[Snapshot]error) {
	x.snapshots = slices.DeleteFunc(x.snapshots, func(s foundSnapshot) bool {
		if s.from == newestTree {
			return false
		}
		file := s.Snapshot
		file.owner = s.ownedBy(x.id)
		err, known := looked[file]
		if known {
			return err != nil
		}
		in, err := verify(context.Background(), f.files, f.dir, x.id, s.Snapshot)
		if err == nil {
			in.Close()
		}
		looked[file] = err
		return err != nil
	})
	x.snapshots = x.snapshots[max(0, len(x.snapshots)-SnapshotsMax):]
}

// unindexed finds snapshot files whose entries were on a page that is lost: whole zstd streams, which
// end in a checksum.
func (f *Folder) unindexed(s *salvager) error {
	if !s.mayHaveLost(snapshotBucket) {
		return nil
	}
	names, err := f.files.ReadDir(f.path(snapshotsFolder))
	if err != nil {
		return err
	}
	for _, n := range names {
		id, at, ok := parseSnapshotName(n.Name())
		if !ok || s.found[id] == nil || !n.Type().IsRegular() {
			continue
		}
		missing := s.mayHaveHad(s.found[id], at)
		if len(missing) == 0 {
			continue
		}
		kept, err := f.identify(n.Name(), at)
		if err != nil {
			f.tell(&CorruptError{File: snapshotsFolder + "/" + n.Name(), Byte: -1, Session: id, Offset: at,
				What: fmt.Sprintf("its entry was lost, and it is not whole: %v", err)})
			continue
		}
		for _, x := range missing {
			if kept.owner = id; x.id == id {
				kept.owner = ""
			}
			x.snapshots = append(x.snapshots, foundSnapshot{place{from: brokenPage}, kept})
			slices.SortFunc(x.snapshots, func(a, b foundSnapshot) int { return cmp.Compare(a.Offset, b.Offset) })
		}
	}
	return nil
}

// mayHaveHad gives the sessions that may have had a snapshot whose file is there, and of which the
// entry was lost: the one that has written it, and those that share its log there.
func (s *salvager) mayHaveHad(owner *remains, at int64) (missing []*remains) {
	lost := func(x *remains) bool {
		return !x.has(at) && s.mayBeLost(snapshotBucket, offsetKey(x.id, at))
	}
	if !owner.leftover && lost(owner) {
		missing = append(missing, owner)
	}
	for _, b := range owner.borrowers {
		if at > b.from && at <= b.to && lost(b.by) {
			missing = append(missing, b.by)
		}
	}
	return missing
}

// identify reads a snapshot file to its end.
func (f *Folder) identify(name string, at int64) (s Snapshot, err error) {
	in, err := f.files.OpenFile(f.path(snapshotsFolder+"/"+name), os.O_RDONLY, 0)
	if err != nil {
		return s, err
	}
	defer in.Close()
	hash := sha256.New()
	counted := &counter{ctx: context.Background(), w: hash}
	from := io.TeeReader(in, counted)
	err = decompress(from, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	return Snapshot{Offset: at, Bytes: counted.n, SHA256: [32]byte(hash.Sum(nil))}, err
}
