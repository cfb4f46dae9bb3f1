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
	return CheckWithProgress(ctx, dir, visit, nil)
}

// CheckWithProgress is Check, and tells progress of the bytes done and of all: of 0 when the last
// part has begun, of which nobody knows how long it takes. Without progress, nobody is told.
func CheckWithProgress(
	ctx context.Context, dir string, visit func(*CorruptError), progress func(done, total int64),
) error {
	work := newWork(progress)
	files := workFiles{osFiles{}, work}
	c := &checker{
		f:        &Folder{dir: dir, readOnly: true, environment: environment{files: files}},
		visit:    visit,
		work:     work,
		logs:     map[string][]run{},
		sessions: map[string]*entry{},
		shares:   map[share]bool{},
		indexed:  map[string]bool{},
	}
	return c.check(ctx)
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
		c.work.expect(size + c.f.snapshotBytes())
		defer c.work.reach(size) // free pages are not read
		_, err := inspectPages(r, size, c.value, c.visit)
		return err
	})
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if err := c.files(ctx); err != nil {
		return err
	}
	c.work.expect(unknown)
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

// snapshotBytes is what the folder of snapshots takes, as far as that can be known.
func (f *Folder) snapshotBytes() (sum int64) {
	names, _ := f.files.ReadDir(f.path(snapshotsFolder)) // the check meets the error again
	for _, n := range names {
		if info, err := n.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum
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
