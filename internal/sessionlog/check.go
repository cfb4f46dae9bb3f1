package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Check looks at every byte of a data folder that means something, changes nothing, and visits what
// it finds wrong; each with the file and, where they can be told, position, session and offset. An
// error says why not all could be checked: ErrInUse if another process writes there, or that the
// context ended. A folder without a finding reads back exactly as it was written.
func Check(ctx context.Context, dir string, visit func(*CorruptError)) error {
	c := &checker{
		f:        &Folder{dir: dir, readOnly: true, environment: environment{files: osFiles{}}},
		visit:    visit,
		logs:     map[string][]run{},
		sessions: map[string]*entry{},
		shares:   map[share]bool{},
		indexed:  map[string]bool{},
	}
	return c.check(ctx)
}

type checker struct {
	f     *Folder
	visit func(*CorruptError)

	logs      map[string][]run  // by the id that records stand under
	sessions  map[string]*entry // nil: damaged
	shares    map[share]bool
	snapshots []indexEntry
	indexed   map[string]bool // names of snapshot files
	epoch     uint64
	hasEpoch  bool
}

// run is a part of a log without a gap. Where the last record is damaged, nobody knows the end: -1.
type run struct {
	extent
	at int64 // position of the first record
}

type indexEntry struct {
	id string
	Snapshot
}

func (c *checker) check(ctx context.Context) error {
	if _, err := os.Stat(c.f.path(databaseName)); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	db, err := c.f.bolt(true)
	var damage *CorruptError
	switch {
	case err == nil:
		defer db.Close()
	// A damaged file bbolt cannot open; then nobody has it open, and it can be looked at nevertheless.
	case !errors.As(err, &damage):
		return err
	}
	err = c.f.withDatabase(func(r file, size int64) error {
		_, err := inspectPages(r, size, c.value, c.visit)
		return err
	})
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if err := c.files(ctx); err != nil {
		return err
	}
	// Keys are missing that damaged pages hold: what does not fit together may be no more than that.
	if err != nil {
		return nil
	}
	if db == nil {
		return nil
	}
	x := &crossChecker{checker: c}
	err = db.View(func(tx *bbolt.Tx) error {
		x.check(tx)
		return nil
	})
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	c.bolt(db)
	return c.strays()
}

func (c *checker) found(at int64, id string, offset int64, format string, args ...any) {
	c.visit(&CorruptError{File: databaseName, Byte: at, Session: id, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// bolt asks bbolt what it thinks of its file. bbolt is asked last, and should have nothing to add.
func (c *checker) bolt(db *bbolt.DB) {
	err := safely(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				c.found(-1, "", -1, "bbolt: %v", err)
			}
			return nil
		})
	})
	if err != nil {
		c.found(-1, "", -1, "%v", err)
	}
}

// value checks one value of lmserve.db; values come in the order of the pages.
func (c *checker) value(bucket string, key, value []byte, at int64) {
	switch bucket {
	case damageBucket:
		c.found(at, string(key), -1, "%s", decodeMark(string(key), value))
	case storeBucket:
		c.storeValue(key, value, at)
	case sessionBucket:
		id := string(key)
		if err := checkID(id); err != nil {
			c.found(at, "", -1, "session: %v", err)
			return
		}
		e, err := decodeEntry(key, value)
		if err != nil {
			c.found(at, id, -1, "session: %v", err)
			c.sessions[id] = nil
			return
		}
		e.head = nil // it is gone when this returns
		c.sessions[id] = &e
	case logBucket:
		id, offset, err := splitKey(key)
		if err != nil {
			c.found(at, "", -1, "record: %v", err)
			return
		}
		c.record(id, offset, key, value, at)
	case shareBucket:
		row, err := decodeShare(key, value)
		if err != nil {
			c.found(at, "", -1, "%v", err)
			return
		}
		c.shares[row] = true
	case snapshotBucket:
		id, offset, err := splitKey(key)
		if err != nil {
			c.found(at, "", -1, "entry of a snapshot: %v", err)
			return
		}
		s, err := decodeSnapshot(key, value, offset)
		c.indexed[snapshotName(s.ownedBy(id), offset)] = true
		if err != nil {
			c.found(at, id, offset, "entry of a snapshot: %v", err)
			return
		}
		c.snapshots = append(c.snapshots, indexEntry{id: id, Snapshot: s})
	}
}

func (c *checker) storeValue(key, value []byte, at int64) {
	if string(key) != epochKey {
		c.found(at, "", -1, "key %.80q in bucket %s, expected only %s", key, storeBucket, epochKey)
		return
	}
	epoch, err := decodeEpoch(value)
	if err != nil {
		c.found(at, "", -1, "the last epoch given out: %v", err)
	}
	c.epoch, c.hasEpoch = epoch, true
}

func (c *checker) record(id string, offset int64, key, value []byte, at int64) {
	r, err := decodeRecord(key, value)
	if err != nil {
		c.found(at, id, offset, "record: %v", err)
	}
	end := offset + int64(len(r.Text))
	if err != nil {
		end = -1
	}
	runs := c.logs[id]
	if n := len(runs) - 1; n >= 0 && (runs[n].to == offset || runs[n].to < 0) {
		runs[n].to = end
		return
	}
	c.logs[id] = append(runs, run{extent{offset, end}, at})
}

// files reads the snapshots, each file once.
func (c *checker) files(ctx context.Context) error {
	read := map[string]Snapshot{}
	for _, s := range c.snapshots {
		name := s.file(s.id)
		if same, ok := read[name]; ok {
			if same.Bytes != s.Bytes || same.SHA256 != s.SHA256 {
				c.found(-1, s.id, s.Offset, "snapshot of %d bytes with SHA-256 %x, expected %d and %x as others that share %s",
					s.Bytes, s.SHA256, same.Bytes, same.SHA256, name)
			}
			continue
		}
		read[name] = s.Snapshot
		in, err := verify(ctx, c.f.files, c.f.dir, s.id, s.Snapshot)
		var damage *CorruptError
		switch {
		case err == nil:
			in.Close()
		case errors.As(err, &damage):
			c.visit(damage)
		default:
			return err
		}
	}
	return nil
}

// strays finds files that are no part of the folder.
func (c *checker) strays() error {
	for _, dir := range []string{".", snapshotsFolder} {
		names, err := c.f.files.ReadDir(c.f.path(dir))
		if errors.Is(err, fs.ErrNotExist) {
			c.visit(&CorruptError{File: dir, Byte: -1, Offset: -1, What: "missing, expected a folder"})
			continue
		}
		if err != nil {
			return fmt.Errorf("sessionlog: %w", err)
		}
		for _, n := range names {
			d := &CorruptError{File: filepath.ToSlash(filepath.Join(dir, n.Name())), Byte: -1, Offset: -1}
			switch {
			case stray(dir, n.Name(), c.indexed) && !n.Type().IsRegular():
				d = foreign(dir + "/" + n.Name())
			case stray(dir, n.Name(), c.indexed):
				d.Stray, d.What = true, "left behind by a process that was stopped; it is removed when the folder is opened for writing"
			case dir == snapshotsFolder && !c.indexed[n.Name()]:
				d.What = "not a snapshot's name, expected only ID.OFFSET" + snapshotSuffix
			default:
				continue
			}
			c.visit(d)
		}
	}
	return nil
}
