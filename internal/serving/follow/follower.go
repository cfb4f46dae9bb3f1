// Package follow reads a file that grows, as logs do: through rotation, where the file gets another
// name and a new one takes its place, and through truncation, where the file begins anew. It reads
// the journal of systemd, too.
//
// A Follower gives whole lines, and says of each piece where in which file it stands. With a Mark
// and an offset another Follower goes on there later: also if the file was rotated meanwhile, by
// renaming or by copying. Nothing is lost of what is still there:
//
//   - A file that was renamed is read to its end, and looked at for some time longer, since
//     programs go on writing to it until they open the new one.
//   - A file that was truncated is recognised by what stood in front of the place that was read
//     last, however much it has grown again. What was not read is looked for in a rotated copy.
//   - A last line without a newline is given when its file is left, and gets a newline then.
//
// The library that the world uses for this, nxadm/tail, does none of the three: in a trial it lost
// the lines written between the renaming and the opening of the new file, the last line without a
// newline, and the beginning of a file that was truncated and grew quickly. Files are looked at
// every 20 milliseconds, which works on every file system.
//
// What a file has is given as clean lines of UTF-8 (Cleaner). A file that cannot be read, or that
// is none for a moment, is told once and tried again.
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
	// listEvery is how often a folder is listed for a file with a later date.
	listEvery = time.Second / 2
	// leaveAfter is how long a file that was renamed is looked at.
	leaveAfter = 5 * time.Second
)

// Options say how a log is followed.
type Options struct {
	Log   Log
	Field []string // see Cleaner
	// Last is how much of the end of the log is given first, of the file that is there and of
	// rotated ones before it; negative: all of the file.
	Last int64
	Ends bool // the following ends with io.EOF some time after the log has no file any more
	// Note is told once what somebody should know; nil: nobody is.
	Note func(text string)
}

// Follower reads a log that grows. One goroutine uses it at a time.
type Follower struct {
	o       Options
	notes   Notes
	files   []*file   // the log's, whose until is zero, and before it those that were the log's
	opened  int       // the number of files
	current *file     // the one that was read last
	trouble string    // what keeps the log from being read; "": nothing does
	missing time.Time // since when the log has no file; zero: it has one

	reopened time.Time // when it was last tried to open a file again
	listed   time.Time // when it was last looked for the log's file
}

// Open follows a log. If it has no file, or one that cannot be read, it is waited for.
func Open(o Options) *Follower {
	w := &Follower{o: o, notes: Notes{Say: o.Note}}
	if _, err := os.Stat(o.Log.current()); errors.Is(err, fs.ErrNotExist) {
		w.say("the file does not exist yet; waiting for it")
		w.o.Last = -1 // all that comes is new
	}
	w.look()
	return w
}

// Resume follows a log from a place on, which may be in a file that was rotated since; then it goes
// on with the files that came after it. If the place is not to be found, it begins with the first
// byte of the log's file, and found is false. Other places are those up to which other files were
// read before: what was written to them since is given, too.
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
	for _, p := range slices.Backward(others) { // of one file the last place counts
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

// Skipped is the number of bytes that were read and not given.
func (w *Follower) Skipped() int64 { return w.notes.Skipped() }

func (w *Follower) say(format string, args ...any) {
	if w.o.Note != nil {
		w.o.Note(fmt.Sprintf(format, args...))
	}
}

// addOther adds a file that was read, too. What has come to it since is to be given, and it is not
// to be taken for one that was never read.
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

// Unread is the number of bytes that were written and not given yet.
func (w *Follower) Unread() (bytes int64) {
	for _, f := range w.files {
		bytes += f.unread()
	}
	return bytes
}

// goneAfter is how long a log may have no file before its following ends, if it may end.
const goneAfter = time.Minute

// Next gives what comes next, and waits for it until ctx is done.
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
			continue // that was skipped
		case w.o.Ends && !w.missing.IsZero() && time.Since(w.missing) > goneAfter:
			return p, io.EOF
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Peek gives what is there, and nothing if that is nothing. What it gives counts as read. A piece
// without text says that something was skipped, and that more may be there.
func (w *Follower) Peek() Piece {
	for _, f := range slices.Clone(w.files) {
		if w.current != nil && w.current != f && w.current.within() {
			continue // a line goes on in another file
		}
		if p := w.read(f); p.To > p.From || len(p.Text) > 0 {
			return p
		}
		if len(f.seen) > 0 {
			break // the newer files wait for the end of the line, or of the file
		}
	}
	w.look()
	return Piece{}
}

// read gives what is there of a file, and leaves the file when it is time.
func (w *Follower) read(f *file) Piece {
	over := !f.until.IsZero() && time.Now().After(f.until)
	raw, rewritten, err := f.peek(over)
	switch {
	case err != nil && over && f.r != f.f: // a damaged archive, or one that is not whole
		w.say("%v: the rest of it is missing", err)
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

// tryAgain tells once that the log cannot be read.
func (w *Follower) tryAgain(err error) {
	if text := err.Error(); text != w.trouble {
		w.trouble = text
		w.say("%s; trying again", text)
	}
}

// reopen opens a file again that cannot be read, as it is with files of a network that has changed.
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

// rewritten goes on with a file that was truncated: with what is left of it in a copy, if there is
// one, and then from its beginning.
func (w *Follower) rewritten(f *file) Piece {
	end, offset := f.end(), f.offset
	f.take(f.seen) // the copy has it, too
	place := Place{Mark: f.mark(), Offset: offset, Skip: f.drop}
	if copied := find(w.o.Log.rotatedPaths(), place); copied != nil {
		copied.until = time.Now() // nobody writes to a copy
		w.add(copied)
		w.current, end = copied, Piece{}
	}
	w.drop(f)
	if f.until.IsZero() {
		w.look() // the log's file is opened again, from its beginning
	}
	return end
}

// look finds out whether the log has another file by now, and adds it. A log without one may be
// between two names.
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

// begin sets where the first file begins, so that the last bytes of the log are given. What the
// file does not have of these is looked for in rotated ones.
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

// leaveAll sets when the files are left that are no longer the log's, and adds those that were the
// log's between them and now.
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

// leave sets when a file is left that was rotated before the following began: when nobody has
// written to it for long, at once.
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
