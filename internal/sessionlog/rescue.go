package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Rescued says what became of one session in a rescue.
type Rescued struct {
	ID         string
	Start, End int64 // of the log in the new folder
	Snapshots  int   // that were taken along
	// Kept tells whether the session is in the new folder at all.
	Kept bool
	// Lost says what may be missing; empty: nothing is.
	Lost []*CorruptError
}

// RescueOptions are those of Rescue.
type RescueOptions struct {
	Session  func(Rescued)           // told of every session
	Damage   func(*CorruptError)     // told of every place in a file that does not read
	Progress func(done, total int64) // told of the bytes of the database done, in two rounds
}

// Rescue writes what can be read of a folder into a new one, which may not exist, and changes
// nothing in the old one. Of a session that has lost records, the log goes up to the last good
// record before the gap; if a good snapshot follows the gap, it begins behind the gap instead, and
// nothing at its end is missing. The sessions of the new folder can be used, and bear no mark. The
// error says why there is no new folder.
func Rescue(ctx context.Context, dir, out string, o RescueOptions) (err error) {
	if err := absent(out); err != nil {
		return fmt.Errorf("sessionlog: %s: %w", out, err)
	}
	f := &Folder{dir: dir, readOnly: true, environment: environment{files: osFiles{}}}
	f.report = func(err error) {
		var d *CorruptError
		if errors.As(err, &d) {
			o.Damage(d)
		}
	}
	db, err := f.bolt(true)
	if err != nil && !errors.Is(err, ErrCorrupt) { // bbolt cannot open a damaged file; then nobody has it open
		return err
	}
	defer func() { err = errors.Join(err, closeIf(db)) }()
	return f.withDatabase(func(in file, size int64) error {
		s := salvage(in, size, func(d *CorruptError) { o.Damage(d.withRange()) }, o.Progress)
		if err := f.unindexed(s); err != nil {
			o.Damage(&CorruptError{File: snapshotsFolder, Byte: -1, Offset: -1, What: err.Error()})
		}
		if err := os.MkdirAll(filepath.Join(out, snapshotsFolder), 0o700); err != nil {
			return fmt.Errorf("sessionlog: %w", err)
		}
		r := &rescuer{
			ctx: ctx, from: f, out: out, tell: o.Session, found: s, copied: map[string]*copying{},
		}
		b := &rebuilder{from: s, progress: o.Progress, part: r.part}
		if err := b.write(&f.environment, filepath.Join(out, databaseName)); err != nil {
			return err
		}
		r.removeUnused(s)
		return errors.Join(f.files.SyncDir(filepath.Join(out, snapshotsFolder)), f.files.SyncDir(out))
	})
}

// withRange says with the damage of a page which bytes of the file that page has.
func (e *CorruptError) withRange() *CorruptError {
	if e.Byte >= 0 {
		page := e.Byte / pageBytes * pageBytes
		e.What = fmt.Sprintf("bytes %d to %d: %s", page, page+pageBytes-1, e.What)
	}
	return e
}

// rescuer chooses what of a session goes into the new folder.
type rescuer struct {
	ctx  context.Context
	from *Folder
	out  string
	tell func(Rescued)

	found  *salvager
	copied map[string]*copying // by the file's name
}

// copying is what became of the copy of a snapshot, which several sessions may share.
type copying struct {
	of     Snapshot
	damage *CorruptError
	err    error
}

// part cuts a session to what can be used, and copies its snapshots.
func (r *rescuer) part(x *remains) (bool, error) {
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
	told := Rescued{ID: x.id, Kept: x.head != nil, Lost: x.damage}
	x.damage = nil
	defer func() { r.tell(told) }()
	if !told.Kept {
		return false, nil
	}
	x.snapshots = slices.DeleteFunc(x.snapshots, func(s foundSnapshot) bool {
		damage, err := r.copy(x.id, s.Snapshot)
		if err == nil {
			return false
		}
		if s.from <= brokenPage { // else it may have been dropped
			told.Lost = append(told.Lost, damage)
		}
		return true
	})
	told.Start, told.End = r.cut(x)
	x.snapshots = x.snapshots[max(0, len(x.snapshots)-SnapshotsMax):]
	told.Snapshots = len(x.snapshots)
	return true, r.ctx.Err()
}

// copy takes a snapshot along, if it is what was written. What sessions share is copied once.
func (r *rescuer) copy(id string, s Snapshot) (*CorruptError, error) {
	name := s.file(id)
	if done := r.copied[name]; done != nil && done.of.SHA256 == s.SHA256 {
		return done.damage, done.err
	} else if done != nil && done.err == nil {
		done = &copying{err: ErrCorrupt, damage: &CorruptError{File: snapshotsFolder + "/" + name, Byte: -1,
			Session: id, Offset: s.Offset, What: "another SHA-256 than others have that share it"}}
		return done.damage, done.err
	}
	in, err := verify(r.ctx, r.from.files, r.from.dir, id, s)
	if err == nil {
		defer in.Close()
		err = r.write(name, io.NewSectionReader(in, 0, s.Bytes))
	}
	var damage *CorruptError
	if err != nil && !errors.As(err, &damage) {
		damage = &CorruptError{File: snapshotsFolder + "/" + name, Byte: -1, Session: id,
			Offset: s.Offset, What: err.Error()}
	}
	r.copied[name] = &copying{s, damage, err}
	return damage, err
}

// removeUnused removes the copies that no session has kept.
func (r *rescuer) removeUnused(s *salvager) {
	for _, x := range s.found {
		for n := range x.snapshots {
			if x.kept {
				delete(r.copied, x.snapshots[n].file(x.id))
			}
		}
	}
	for name := range r.copied {
		_ = os.Remove(filepath.Join(r.out, snapshotsFolder, name))
	}
}

func (r *rescuer) write(name string, from io.Reader) error {
	path := filepath.Join(r.out, snapshotsFolder, name)
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// cut leaves one piece of the log without a gap: the last one, if a snapshot lies in it or if the
// text before it is gone; else the first. Snapshots elsewhere are left out.
func (r *rescuer) cut(x *remains) (start, end int64) {
	found := r.found.covered(x)
	start = x.entry.start
	end = start
	if len(found) > 0 {
		last := found[len(found)-1]
		within := func(s foundSnapshot) bool { return s.Offset >= last.from && s.Offset <= last.to }
		whole := found[0].from == start
		switch {
		case !whole, len(found) > 1 && slices.ContainsFunc(x.snapshots, within):
			start, end = last.from, last.to
		default:
			end = found[0].to
		}
	}
	x.keep(start, end)
	x.snapshots = slices.DeleteFunc(x.snapshots, func(s foundSnapshot) bool {
		return s.Offset < start || s.Offset > end
	})
	return start, end
}
