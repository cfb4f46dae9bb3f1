// Package follow reads a file that grows, as logs do: through rotation, where the file gets another
// name and a new one takes its place, and through truncation, where the file begins anew.
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
package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

const (
	lookEvery = 20 * time.Millisecond
	// leaveAfter is how long a file that was renamed is looked at.
	leaveAfter = 5 * time.Second
)

// Follower reads a file that grows. One goroutine uses it at a time.
type Follower struct {
	path    string
	files   []*file // the path's, whose until is zero, and before it those that were the path's
	opened  int     // the number of files
	current *file   // the one that was read last
}

// Open follows a file from the offset on.
func Open(path string, offset int64) (*Follower, error) {
	f, err := openFile(path, offset)
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	w := &Follower{path: path}
	w.add(f)
	return w, nil
}

// Resume follows a file from a place on, which may be in a file that was rotated since; then it goes
// on with the files that came after it. If the place is not to be found, it begins with the first
// byte of the file that has the path, and found is false. Other places are those up to which other
// files were read before: what was written to them since is given, too.
func Resume(path string, place Place, others ...Place) (w *Follower, found bool, err error) {
	w = &Follower{path: path}
	paths := append([]string{path}, rotatedPaths(path)...)
	f := find(paths, place.Mark, place.Offset)
	if f == nil {
		return w, false, w.look()
	}
	w.add(f)
	w.current, f.ended = f, place.Ended
	for _, p := range slices.Backward(others) { // of one file the last place counts
		w.addOther(find(paths, p.Mark, p.Offset))
	}
	now, err := os.Stat(path)
	for _, f := range w.files {
		if err != nil || !os.SameFile(now, f.info) {
			w.leave(f)
		}
	}
	return w, true, w.look()
}

// addOther adds a file that was read, too. What has come to it since is to be given, and it is not to
// be taken for one that was never read.
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

// Next gives what comes next, and waits for it until ctx is done.
func (w *Follower) Next(ctx context.Context) (Piece, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return Piece{}, err
		}
		p, err := w.Peek()
		if err != nil || len(p.Text) > 0 {
			return p, err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Peek gives what is there, and nothing if that is nothing. What it gives counts as read.
func (w *Follower) Peek() (Piece, error) {
	for _, f := range slices.Clone(w.files) {
		if w.current != nil && w.current != f && w.current.within() {
			continue // a line goes on in another file
		}
		if p, err := w.read(f, false); err != nil || len(p.Text) > 0 {
			return p, err
		}
		if len(f.seen) > 0 {
			break // the newer files wait for the end of the line, or of the file
		}
	}
	return Piece{}, w.look()
}

// Rest gives what is there without waiting for more: also a last line without a newline. What it
// gives counts as read; at the end it gives nothing.
func (w *Follower) Rest() (Piece, error) {
	p, err := w.Peek()
	for _, f := range w.files {
		if err != nil || len(p.Text) > 0 {
			break
		}
		p, err = w.read(f, true)
	}
	return p, err
}

// read gives what is there of a file, with rest also a last line without a newline, and leaves the
// file when it is time.
func (w *Follower) read(f *file, rest bool) (Piece, error) {
	over := !f.until.IsZero() && time.Now().After(f.until)
	text, rewritten, err := f.peek(over || rest)
	switch {
	case err != nil:
		return Piece{}, fmt.Errorf("follow: %w", err)
	case rewritten:
		return w.rewritten(f), nil
	case len(text) > 0:
		from := f.offset
		f.take(text)
		w.current = f
		return f.piece(text, from), nil
	case over:
		w.drop(f)
		return f.end(), nil
	}
	return Piece{}, nil
}

// rewritten goes on with a file that was truncated: with what is left of it in a copy, if there is
// one, and then from its beginning.
func (w *Follower) rewritten(f *file) Piece {
	end, offset := f.end(), f.offset
	f.take(f.seen) // the copy has it, too
	mark := f.mark()
	if copied := find(rotatedPaths(w.path), mark, offset); copied != nil {
		copied.until = time.Now() // nobody writes to a copy
		w.add(copied)
		w.current, end = copied, Piece{}
	}
	w.drop(f)
	if f.until.IsZero() {
		_ = w.look() // the path's file is opened again, from its beginning; an error comes again
	}
	return end
}

// look finds out whether the path has another file by now, and adds it.
func (w *Follower) look() error {
	info, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it may be between two names
	}
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if w.has(info) {
		return nil
	}
	f, err := openFile(w.path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	w.leaveAll()
	w.add(f)
	return nil
}

// leaveAll sets when the files are left that are no longer the path's, and adds those that were the
// path's between them and now.
func (w *Follower) leaveAll() {
	if len(w.files) == 0 {
		return
	}
	for _, f := range w.files {
		if f.until.IsZero() {
			f.until = time.Now().Add(leaveAfter)
		}
	}
	for _, path := range newer(siblings(w.path), w.files) {
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
	w.files = append(w.files, f)
}

func (w *Follower) drop(f *file) {
	f.close()
	w.files = slices.DeleteFunc(w.files, func(other *file) bool { return other == f })
	if w.current == f {
		w.current = nil
	}
}
