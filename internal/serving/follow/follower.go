// Package follow reads a growing file, such as a log. It handles rotation, where the file is
// renamed and a new one replaces it, and truncation, where the file begins again. It also reads the
// journal of systemd.
//
// A Follower returns whole lines, with the file and the position of each piece. With a Mark and an
// offset, another Follower can continue at that position later, also after a rotation by renaming
// or by copying. No text that still exists is lost:
//
//   - A renamed file is read to its end, and watched for some time longer, because programs write
//     to it until they open the new one.
//   - A truncated file is recognized because it no longer has the bytes before the last position,
//     even if it has grown beyond that position again. Text that was not read is looked for in a
//     rotated copy.
//   - A last line without a newline is returned when its file is closed. Then a newline is added.
//
// The common library for this task, nxadm/tail, does none of these three things. In a trial it lost
// lines written between the renaming and the opening of the new file. It also lost the last line
// without a newline, and the beginning of a truncated file that grew quickly. This package polls
// files every 20 milliseconds, which works on every file system.
//
// The text is returned as clean lines of UTF-8 (Cleaner). A file that cannot be read, or that is
// missing for a moment, is reported once and tried again.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

const (
	lookEvery = 20 * time.Millisecond
	// listEvery is how often a folder is searched for a file with a later date in its name.
	listEvery = time.Second / 2
	// leaveAfter is how long a renamed file is still watched.
	leaveAfter = 5 * time.Second
)

// Options configure how a log is followed.
type Options struct {
	Log   Log
	Field []string // see Cleaner
	// Last is the number of bytes of the log's end to return first, from the current file and, if
	// needed, from rotated files. If negative, the whole current file is returned.
	Last int64
	Ends bool // Next returns io.EOF when the log has had no file for goneAfter
	// Note gets each message for the user once; may be nil.
	Note func(text string)
}

// Follower reads a growing log. Only one goroutine may use it at a time.
type Follower struct {
	o     Options
	notes Notes
	// the log's earlier files, then its current file; the field until of the current file is zero
	files   []*file
	opened  int       // the number of files opened so far
	current *file     // the file that was read last
	trouble string    // why the log cannot be read; empty if it can be read
	missing time.Time // since when the log has had no file; zero if it has a file

	reopened time.Time // when a reopening was last tried
	listed   time.Time // when the folder was last checked for the log's file
}

// Open follows a log. If its file is missing or cannot be read, the Follower waits for it.
func Open(o Options) *Follower {
	w := &Follower{o: o, notes: Notes{Say: o.Note}}
	if _, err := os.Stat(o.Log.current()); errors.Is(err, fs.ErrNotExist) {
		w.say("the file does not exist yet; waiting")
		w.o.Last = -1 // return the whole file, because all of its text is new
	}
	w.look()
	return w
}

// Resume follows a log from a place. If the place's file was rotated since, it continues with the
// later files. If the place is not found, it begins with the first byte of the log's file, and
// found is false. others are the places up to which other files were read. Text that was written to
// them since is also returned.
func Resume(o Options, place Place, others ...Place) (w *Follower, found bool) {
	o.Last = -1
	w = &Follower{o: o, notes: Notes{Say: o.Note}}
	f := find(o.Log.paths(place.Mark), place)
	if f == nil {
		w.look()
		return w, false
	}
	w.add(f)
	if w.current = f; place.Ended {
		f.endLine()
	}
	// from the last, because only the last place of each file counts
	for _, p := range slices.Backward(others) {
		w.addOther(find(o.Log.paths(p.Mark), p))
	}
	now, err := os.Stat(o.Log.current())
	for _, f := range w.files {
		if err != nil || !os.SameFile(now, f.info) {
			w.leave(f)
		}
	}
	w.look()
	return w, true
}

// Skipped returns the number of bytes that were read but not returned.
func (w *Follower) Skipped() int64 { return w.notes.Skipped() }

func (w *Follower) say(format string, args ...any) {
	if w.o.Note != nil {
		w.o.Note(fmt.Sprintf(format, args...))
	}
}

// addOther adds another file that was read before, so that only its new text is returned.
func (w *Follower) addOther(f *file) {
	switch {
	case f == nil:
	case w.has(f.info):
		f.close()
	default:
		w.add(f)
	}
}

func (w *Follower) has(info os.FileInfo) bool {
	return slices.ContainsFunc(w.files, func(f *file) bool { return os.SameFile(f.info, info) })
}

// Close ends the reading.
func (w *Follower) Close() {
	for _, f := range w.files {
		f.close()
	}
	w.files = nil
}

// Unread returns the number of bytes that were written but not returned yet.
func (w *Follower) Unread() (bytes int64) {
	for _, f := range w.files {
		bytes += f.unread()
	}
	return bytes
}

// goneAfter is how long a log may have no file. With Options.Ends, Next then returns io.EOF.
const goneAfter = time.Minute

// Next returns the next piece. It waits until there is one or ctx is done.
func (w *Follower) Next(ctx context.Context) (Piece, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return Piece{}, err
		}
		p := w.Peek()
		switch {
		case len(p.Text) > 0:
			return p, nil
		case p.To > p.From:
			continue // all bytes of the piece were skipped
		case w.o.Ends && !w.missing.IsZero() && time.Since(w.missing) > goneAfter:
			return p, io.EOF
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Peek returns the next piece if there is one, without waiting. The piece counts as read. A piece
// without text means that bytes were skipped, and that more may follow.
func (w *Follower) Peek() Piece {
	for _, f := range slices.Clone(w.files) {
		if w.current != nil && w.current != f && w.current.within() {
			continue // the current file's line must be finished first
		}
		if p := w.read(f); p.To > p.From || len(p.Text) > 0 {
			return p
		}
		if len(f.seen) > 0 {
			break // newer files are read only after this file's line, or the file, has ended
		}
	}
	w.look()
	return Piece{}
}

// read returns the next piece of a file. It closes a renamed file at its end, once the time in the
// field until has passed.
func (w *Follower) read(f *file) Piece {
	over := !f.until.IsZero() && time.Now().After(f.until)
	raw, rewritten, err := f.peek(over)
	switch {
	case err != nil && over && f.r != f.f: // a damaged or incomplete archive
		w.say("%v: the rest of the file is missing", err)
		w.drop(f)
		return f.end()
	case err != nil:
		w.tryAgain(err)
		w.reopen(f)
	case rewritten:
		return w.rewritten(f)
	case len(raw) > 0:
		p := f.piece(raw)
		w.current = f
		return p
	case over:
		w.drop(f)
		return f.end()
	}
	return Piece{}
}

// tryAgain reports an error once: that the log cannot be read, and that reading is retried.
func (w *Follower) tryAgain(err error) {
	if text := err.Error(); text != w.trouble {
		w.trouble = text
		w.say("%s; trying again", text)
	}
}

// reopen opens an unreadable file again. Files on a network file system can become unreadable when
// they change.
func (w *Follower) reopen(f *file) {
	if time.Since(w.reopened) < time.Second {
		return
	}
	w.reopened = time.Now()
	mark := f.mark()
	again := find(w.o.Log.paths(mark), Place{Mark: mark, Offset: f.offset})
	if again == nil {
		return
	}
	f.close()
	f.f, f.r, f.info = again.f, again.r, again.info
}

// rewritten continues after a truncation. If a rotated copy has the unread rest, that rest is read
// first. Then the file is read from its beginning.
func (w *Follower) rewritten(f *file) Piece {
	end, offset := f.end(), f.offset
	f.take(f.seen) // the copy also has this unfinished line, so it becomes part of the mark
	place := Place{Mark: f.mark(), Offset: offset, Skip: f.drop}
	if copied := find(w.o.Log.rotatedPaths(), place); copied != nil {
		copied.until = time.Now() // nobody writes to a copy
		w.add(copied)
		w.current, end = copied, Piece{}
	}
	w.drop(f)
	if f.until.IsZero() {
		w.look() // this opens the log's file again, from its beginning
	}
	return end
}

// look adds the log's new file, if it exists. While the file is being rotated, it may not exist.
func (w *Follower) look() {
	if w.o.Log.Dated && time.Since(w.listed) < listEvery {
		return
	}
	w.listed = time.Now()
	path := w.o.Log.current()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if w.missing.IsZero() {
			w.missing = time.Now()
		}
		return
	}
	w.missing = time.Time{}
	if err == nil && w.has(info) {
		w.trouble = ""
		return
	}
	var f *file
	if err == nil {
		f, err = openFile(path, 0)
	}
	if err == nil && w.opened == 0 && w.o.Last >= 0 {
		if err = w.begin(f); err != nil {
			f.close()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		w.tryAgain(err)
		return
	}
	w.trouble = ""
	w.leaveAll()
	w.add(f)
}

// begin sets the offset in the first file so that the last Options.Last bytes of the log are
// returned. If the file has fewer bytes, begin also adds rotated files.
func (w *Follower) begin(f *file) error {
	size, err := f.size()
	if err != nil || size > w.o.Last {
		return errors.Join(err, f.last(w.o.Last))
	}
	var before []*file
	left := w.o.Last - size
	for _, path := range w.o.Log.rotatedPaths() {
		o, err := openFile(path, 0)
		if err != nil {
			continue
		}
		size, err := o.size()
		after := o.info.ModTime().After(f.info.ModTime())
		if err != nil || left == 0 || after || os.SameFile(o.info, f.info) || o.last(left) != nil {
			o.close()
			continue
		}
		before = append(before, o)
		left -= min(left, size)
	}
	for _, o := range slices.Backward(before) {
		w.add(o)
		w.leave(o)
	}
	return nil
}

// leaveAll sets the time at which the files so far are closed, because a new file replaces them. It
// adds files that were created and rotated in the meantime.
func (w *Follower) leaveAll() {
	if w.opened == 0 || len(w.files) == 0 {
		return
	}
	for _, f := range w.files {
		if f.until.IsZero() {
			f.until = time.Now().Add(leaveAfter)
		}
	}
	for _, path := range w.o.Log.newer(w.files) {
		if f, err := openFile(path, 0); err == nil {
			w.add(f)
			w.leave(f)
		}
	}
}

// leave sets the time at which to close a file that was rotated before it was opened: leaveAfter
// after the last write. That time may be in the past.
func (w *Follower) leave(f *file) {
	f.until = f.info.ModTime().Add(leaveAfter)
}

func (w *Follower) add(f *file) {
	w.opened++
	f.number = w.opened
	f.cleanAs(&w.notes, w.o.Field)
	w.files = append(w.files, f)
}

func (w *Follower) drop(f *file) {
	f.close()
	w.files = slices.DeleteFunc(w.files, func(other *file) bool { return other == f })
	if w.current == f {
		w.current = nil
	}
}
