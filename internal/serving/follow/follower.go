// Package follow reads growing log files and the journal of systemd. It handles rotation (the file
// is renamed, and a new file replaces it) and truncation (the file is emptied and written again).
//
// A Follower returns whole lines, with the file and the position of each piece. Another Follower
// can resume from a Mark and an offset, even after a rotation. No text that still exists is lost:
//
//   - A renamed file is read to its end. It is then watched for some seconds, because programs
//     write to the renamed file until they open the new file.
//   - A truncated file is recognized, because the bytes before the last position have changed.
//     Text that was not read yet is read from a rotated copy.
//   - A last line without a newline is returned with a newline when its file is closed.
//
// The library nxadm/tail does none of this. In a trial, it lost lines written between the renaming
// and the opening of the new file. It also lost the last line without a newline, and the beginning
// of a truncated file that grew quickly.
//
// Files are polled every 20 milliseconds, which works on every file system. The text is returned as
// clean lines of UTF-8 (see Cleaner). A file that is missing or unreadable is reported once and
// tried again. A rotated file that stays unreadable for some seconds is reported and left out.
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
	Field []string // path of a value in lines of JSON; see Cleaner
	// Last is the number of past bytes to return first, from the current file and, if needed, from
	// rotated files. If Last is negative, the current file is returned from its beginning.
	Last int64
	Ends bool // Next returns io.EOF when the log's file has been missing for goneAfter
	// Note is called with messages for the user; it may be nil.
	Note func(text string)
}

// Follower reads a growing log. Only one goroutine may use it at a time.
type Follower struct {
	o     Options
	notes Notes
	// the log's rotated files, then its current file
	files   []*file
	opened  int
	current *file
	trouble string    // why the log cannot be read; empty if it can be read
	missing time.Time // since when the log has had no file; zero if it has a file

	reopened time.Time
	listed   time.Time
}

// Open follows a log. If the log's file is missing or unreadable, the Follower waits for the file.
func Open(o Options) *Follower {
	w := &Follower{o: o, notes: Notes{Say: o.Note}}
	if _, err := os.Stat(o.Log.current()); errors.Is(err, fs.ErrNotExist) {
		w.say("the file does not exist yet; waiting")
		w.o.Last = -1 // return the whole file, because all of its text is new
	}
	w.look()
	return w
}

// Resume follows a log from a place, even if the place's file was rotated since. If the place is
// not found, reading begins at the start of the log's current file, and found is false. others are
// the last places in other files that were read. Text that was written to these files since is also
// returned.
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
	// Only the last place of each file counts, so later places come first.
	for _, p := range slices.Backward(others) {
		w.addOther(find(o.Log.paths(p.Mark), p), p.Ended)
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

// Skipped returns the number of input bytes that were dropped.
func (w *Follower) Skipped() int64 { return w.notes.Skipped() }

func (w *Follower) say(format string, args ...any) {
	if w.o.Note != nil {
		w.o.Note(fmt.Sprintf(format, args...))
	}
}

func (w *Follower) addOther(f *file, closed bool) {
	switch {
	case f == nil:
	case w.has(f.info):
		f.close()
	default:
		f.closed = closed
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

// Unread returns the number of bytes in the files that were not returned yet.
func (w *Follower) Unread() (bytes int64) {
	for _, f := range w.files {
		bytes += f.unread()
	}
	return bytes
}

// goneAfter is how long the log's file may be missing before Next returns io.EOF (with
// Options.Ends).
const goneAfter = time.Minute

// Next waits for the next piece, or until ctx is done.
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

// Peek returns the next piece without waiting, and advances past the piece. The piece is empty if
// there are no new bytes. If all bytes of a piece were skipped, Text is empty, but From and To
// differ.
func (w *Follower) Peek() Piece {
	for _, f := range slices.Clone(w.files) {
		if w.current != nil && w.current != f && w.current.within() {
			continue // the file that was read last has an unfinished line
		}
		if p := w.read(f); p.To > p.From || len(p.Text) > 0 {
			return p
		}
		if len(f.seen) > 0 {
			break // this file has an unfinished line, and newer files wait for its end
		}
	}
	w.look()
	return Piece{}
}

// read returns the next piece of a file. After the time f.until, read closes the file once all text
// was returned. It also closes a file that stays unreadable, because newer files may wait.
func (w *Follower) read(f *file) Piece {
	over := !f.until.IsZero() && time.Now().After(f.until)
	raw, rewritten, err := f.peek(over)
	if err == nil {
		f.failed = time.Time{}
	}
	switch {
	case err != nil && over && f.isLost():
		w.say("%v: the rest of the file is missing", err)
		w.drop(f)
		return f.end()
	case err != nil:
		if f.failed.IsZero() {
			f.failed = time.Now()
			w.say("%v; trying again", err)
		}
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

// rewritten handles a truncated file. If a rotated copy has the unread text, the copy is read
// first. Then the file is read from its beginning.
func (w *Follower) rewritten(f *file) Piece {
	end, offset := f.end(), f.offset
	f.take(f.seen) // the copy also contains the unfinished line, so the mark includes the line
	place := Place{Mark: f.mark(), Offset: offset, Skip: f.drop}
	if copied := find(w.o.Log.rotatedPaths(), place); copied != nil {
		copied.until = time.Now() // nobody writes to a copy
		w.add(copied)
		w.current, end = copied, Piece{}
	}
	w.drop(f)
	if f.until.IsZero() {
		w.look()
	}
	return end
}

// look adds the log's new file. During a rotation, the file may be missing for a moment.
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

// begin sets the offset of the first file so that reading begins Options.Last bytes before the
// log's end. If the file is shorter, begin also adds rotated files.
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

// leaveAll schedules the closing of the followed files, because a new file replaces them. It also
// adds files that were created and rotated since the last check.
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

// leave schedules the closing of a rotated file: leaveAfter after its last write, perhaps in the
// past.
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
