package folder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Check reads a whole data folder without changing it, and calls visit for each damage. The damage
// has the file and, if known, position, session and offset. Check returns an error if something
// could not be checked. If Check finds no damage, everything can be read as it was written.
func Check(ctx context.Context, dir string, visit func(*storage.CorruptError)) error {
	return CheckWithProgress(ctx, dir, visit, nil)
}

// CheckWithProgress does what Check does, and reports progress. It calls progress, if not nil, with
// the number of bytes read so far and the total number of bytes.
func CheckWithProgress(
	ctx context.Context, dir string, visit func(*storage.CorruptError),
	progress func(done, total int64),
) (err error) {
	report := func(err error) {
		if damage, ok := errors.AsType[*storage.CorruptError](err); ok {
			visit(damage)
		}
	}
	// Opening the folder already reports sessions that cannot be loaded, so the checker skips these
	// sessions.
	f, err := open(dir, Options{ReadOnly: true, Report: report}, osFiles{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	strays, failed := f.strays()
	for _, stray := range strays {
		visit(stray)
	}
	pace := func(ctx context.Context) error { return ctx.Err() }
	c := checker{f: f, visit: visit, pace: pace, read: func(int64) {}}
	if progress != nil {
		total := f.bytes()
		c.read = func(n int64) { c.done += n; progress(min(c.done, total), total) }
	}
	return errors.Join(failed, c.all(ctx))
}

// bytes returns the total length of all files of sessions. A file that several sessions share is
// counted for each of these sessions.
func (f *Folder) bytes() (sum int64) {
	for _, s := range f.sessions {
		s.files(func(_ string, _ links, bytes int64) { sum += bytes })
	}
	return sum
}

// strays returns an error for each leftover of a killed process, and for each file whose name the
// store does not use. err is the error of the first folder that could not be read.
func (f *Folder) strays() (found []*storage.CorruptError, err error) {
	note := func(name, what string) {
		found = append(found, &storage.CorruptError{File: filepath.ToSlash(name), Byte: -1,
			Offset: -1,
			Stray:  true, What: what})
	}
	const leftBehind = "left behind by a process that was killed; the next server start removes it"
	for _, dir := range []string{makingName, removedName, backupName} {
		entries, failed := f.files.ReadDir(f.path(dir))
		if !errors.Is(failed, fs.ErrNotExist) {
			err = cmp.Or(err, failed)
		}
		for _, e := range entries {
			what := leftBehind
			if !isOwnFolder(e) {
				what = "not a file that lmserve wrote; ignored"
			}
			note(filepath.Join(dir, e.Name()), what)
		}
	}
	for _, id := range f.completeIDs() {
		entries, failed := f.files.ReadDir(f.sessionPath(id))
		if f.sessions[id].damage == nil {
			err = cmp.Or(err, failed)
		}
		for _, e := range entries {
			name := filepath.Join(sessionsName, id, e.Name())
			switch {
			case slices.Contains(f.sessions[id].leftovers, e.Name()):
				note(name, leftBehind)
			case !known(e.Name()):
				note(name, "not a file of a session; ignored")
			}
		}
	}
	return found, err
}

func known(name string) bool {
	for _, prefix := range []string{segmentPrefix, statePrefix} {
		if _, ok := parseName(name, prefix); ok {
			return true
		}
	}
	_, _, claim := parseClaim(name)
	return claim || name == headName || strings.HasSuffix(name, temporary)
}

type checker struct {
	f     *Folder
	visit func(*storage.CorruptError)
	pace  func(context.Context) error // called before each file is read, to limit the rate
	read  func(bytes int64)
	done  int64
}

// all checks all sessions. If a session cannot be checked, all checks the others, and returns the
// first error. It stops only when pace fails.
func (c *checker) all(ctx context.Context) (err error) {
	for _, id := range c.f.completeIDs() {
		failed := c.session(ctx, id)
		if failed == nil {
			continue
		}
		if stop := c.pace(ctx); stop != nil {
			return stop
		}
		err = cmp.Or(err, failed)
	}
	return err
}

// session checks the files of a session. It passes damage to visit, and returns only other errors.
func (c *checker) session(ctx context.Context, id string) error {
	found, err := c.f.Get(ctx, id)
	if errors.Is(err, storage.ErrNotFound) || found.Err != nil {
		// the session was deleted, or its damage was already reported when the folder was opened
		return nil
	}
	if err == nil {
		err = c.head(ctx, id)
	}
	if err == nil {
		err = c.log(ctx, id, found.Start)
	}
	if err == nil {
		err = c.states(ctx, id)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil // the session was deleted during the check
	}
	return err
}

// head checks the file "head" of a session. When an index exists, opening the folder does not read
// this file.
func (c *checker) head(ctx context.Context, id string) error {
	return c.found(c.f.with(ctx, id, func(s *session) error {
		now := newSession(id)
		if err := c.f.loadHead(now); err != nil {
			return cmp.Or(c.f.inPlace(), err)
		}
		if !bytes.Equal(now.head, s.head) {
			return corrupt(s, headName, -1, errors.New("the head in the file differs from the "+
				"head in the index"))
		}
		return nil
	}))
}

func (c *checker) log(ctx context.Context, id string, from int64) error {
	if err := c.pace(ctx); err != nil {
		return err
	}
	read := int64(0)
	err := c.f.Read(ctx, id, from, func(_ int64, r storage.Record) error {
		if read += int64(len(r.Text)); read < segmentBytes {
			return nil
		}
		c.read(read)
		read = 0
		return c.pace(ctx)
	})
	c.read(read)
	if errors.Is(err, storage.ErrRange) {
		return nil // the log was trimmed during the check
	}
	return c.found(err)
}

func (c *checker) states(ctx context.Context, id string) error {
	kept, err := c.f.Snapshots(ctx, id)
	if err != nil {
		return err
	}
	for _, k := range kept {
		if err := c.pace(ctx); err != nil {
			return err
		}
		err := c.f.ReadSnapshot(ctx, id, k.Offset, func(io.Reader) error { return nil })
		if errors.Is(err, storage.ErrNotFound) {
			continue // the snapshot was removed during the check
		}
		if err := c.found(err); err != nil {
			return err
		}
		c.read(k.Bytes)
	}
	return nil
}

// found passes err to visit if it is damage, and otherwise returns err.
func (c *checker) found(err error) error {
	if damage, ok := errors.AsType[*storage.CorruptError](err); ok {
		c.visit(damage)
		return nil
	}
	return err
}

// ScrubOptions are the options of Scrub.
type ScrubOptions struct {
	// limit on the files read per second; a file is a snapshot or a segment of a log
	FilesPerSecond int
	Report         func(*storage.CorruptError)
	Rest           time.Duration
}

// Scrub reads all sessions once, at a limited rate, and reports damage. It changes nothing. The
// error is of the first session that could not be read.
func (f *Folder) Scrub(ctx context.Context, o ScrubOptions) error {
	pause := time.Second / time.Duration(max(1, o.FilesPerSecond))
	pace := func(ctx context.Context) error { return f.wait(ctx, pause) }
	c := checker{f: f, visit: o.Report, pace: pace, read: func(int64) {}}
	return c.all(ctx)
}

// ScrubForever repeats Scrub until the context ends or the folder is closed.
func (f *Folder) ScrubForever(ctx context.Context, o ScrubOptions) {
	for stopped := false; !stopped; stopped = f.wait(ctx, o.Rest) != nil {
		err := f.Scrub(ctx, o)
		if err != nil && ctx.Err() == nil && !errors.Is(err, storage.ErrClosed) {
			f.report(fmt.Errorf("the search for damage skipped at least one session: %w", err))
		}
	}
}

func (f *Folder) wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.closing:
		return storage.ErrClosed
	case <-timer.C:
		return nil
	}
}

// Rescued is the result of rescuing one session.
type Rescued struct {
	ID         string
	Start, End int64 // the first and last offset of the log in the new folder
	Snapshots  int
	Kept       bool
	// Lost lists the damage that may have lost data. It is empty if nothing is missing.
	Lost []*storage.CorruptError
}

// Rescue writes the readable part of each session into a new folder, and does not change the old
// folder. If a session has lost records, its new log ends at the last good record before the gap.
// But if a good snapshot follows the gap, the new log begins after the gap. If the end of a log may
// be lost, cut returns the session's head for a text that ends at offset end. Rescue calls each
// with the result for every session.
func Rescue(
	ctx context.Context, dir, out string, cut func(id string, head []byte, end int64) []byte,
	each func(Rescued),
) (err error) {
	if err := atomicfile.Absent(out); err != nil {
		return fmt.Errorf("storage: %s: %w", out, err)
	}
	from, err := open(dir, Options{ReadOnly: true}, osFiles{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := open(out, Options{}, osFiles{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for _, id := range from.completeIDs() {
		r, err := rescue(ctx, from, to, from.sessions[id], cut)
		if err != nil {
			return err
		}
		each(r)
	}
	return nil
}
