package follow

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pieceBytes is the maximum number of bytes that are read from a file at once.
const pieceBytes = 2 * lineMax

type file struct {
	f      *os.File
	r      io.ReaderAt // f, or the decompressed content of f
	info   os.FileInfo
	offset int64
	before []byte // the bytes before the offset, at most sampleBytes
	head   []byte
	seen   []byte // the unfinished line after the offset, at most sampleBytes, without last NULs
	// whether a newline was added to the last line, which has no newline in the file
	ended bool
	// whether the newline that end adds was returned before a restart
	closed bool
	number int
	// when to close a rotated file; zero for the log's current file
	until   time.Time
	failed  time.Time // since when the file is unreadable; zero if it is readable
	clean   Cleaner
	newline []byte // the newline in the file's encoding; nil while the encoding is unknown
	// the bytes from offset to hole are NUL; later bytes are not checked yet
	hole     int64
	holeEnds bool
	drop     int64 // number of clean bytes after the offset that were already returned

	buffer []byte
}

// openFile opens a regular file and moves to the offset. It refuses other files, because opening a
// named pipe could block.
func openFile(path string, offset int64) (*file, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	o := &file{f: f, r: f, buffer: make([]byte, sampleBytes+pieceBytes)}
	o.clean.Notes = &Notes{}
	if unpack := unpackers[filepath.Ext(path)]; unpack != nil {
		o.r = &packed{f: f, unpack: unpack}
	}
	if o.info, err = f.Stat(); err == nil && !o.info.Mode().IsRegular() {
		err = notRegular(path, o.info)
	}
	if err == nil {
		err = o.seek(offset)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func notRegular(path string, info os.FileInfo) error {
	what := "not a regular file"
	switch mode := info.Mode(); {
	case mode.IsDir():
		what = "a folder"
	case mode&os.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&os.ModeSocket != 0:
		what = "a socket"
	}
	return fmt.Errorf("%s is %s, expected a file", path, what)
}

func (o *file) seek(offset int64) error {
	o.offset = offset
	o.head = make([]byte, min(offset, sampleBytes))
	_, err := o.r.ReadAt(o.head, 0)
	if err == nil {
		o.before = make([]byte, min(offset, sampleBytes))
		_, err = o.r.ReadAt(o.before, offset-int64(len(o.before)))
	}
	return err
}

// cleanAs configures the Cleaner. It cleans the text before the offset again, so that the Cleaner
// knows whether the offset is within a line. If that text cannot be read, the offset counts as the
// beginning of a line.
func (o *file) cleanAs(notes *Notes, field []string) {
	o.clean.Notes, o.clean.Field = notes, field
	o.encoding(nil)
	newline := o.newlineKnown()
	text := make([]byte, min(o.offset, int64(len(newline))*pieceBytes))
	n, _ := o.r.ReadAt(text, o.offset-int64(len(text)))
	text = text[:n]
	last, ended := bytes.CutSuffix(text, newline)
	if last = last[lastNewline(last, newline):]; ended && !container.Match(last) {
		if _, ok := dockerLog(last); !ok {
			return
		}
	}
	_, whole, ok := bytes.Cut(text, newline8)
	if ok && int64(len(text)) < o.offset && len(newline) == 1 {
		text = whole // without the first line, whose beginning was not read
	}
	tidy := o.clean
	tidy.Notes = &Notes{}
	tidy.Clean(text)
	o.clean.line, o.clean.within, o.clean.split = tidy.line, tidy.within, tidy.split
}

func (o *file) encoding(text []byte) {
	if head := append(bytes.Clone(o.head), text...); o.newline == nil && len(head) > 1 {
		o.newline = newlineOf(head)
		o.clean.decoder = decoderOf(o.newline)
	}
}

func (o *file) within() bool {
	open := len(o.before) > 0 && !bytes.HasSuffix(o.before, o.newlineKnown())
	return !o.ended && (open || o.clean.split != "")
}

func (o *file) newlineKnown() []byte {
	if o.newline == nil {
		return newline8
	}
	return o.newline
}

// peek returns the text after the offset: whole lines, or the beginning of a line that is too long
// for the buffer. If rest is true, peek also returns an unfinished line. rewritten is true if the
// file no longer has bytes that were read before.
func (o *file) peek(rest bool) (text []byte, rewritten bool, err error) {
	n, err := o.r.ReadAt(o.buffer, o.offset-int64(len(o.before)))
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	k := len(o.before)
	if n < k || !bytes.Equal(o.buffer[:k], o.before) {
		return nil, true, nil
	}
	text = o.buffer[k:n]
	if !bytes.HasPrefix(text, o.seen) {
		return nil, true, nil
	}
	o.encoding(text)
	newline := o.newlineKnown()
	if hole := len(text) - len(bytes.TrimLeft(text, "\x00")); hole > 0 && len(newline) == 1 {
		if !rest && hole == len(text) && !o.endOfHole() {
			// a program may have reserved space for its output at the end of the file
			return nil, false, nil
		}
		return text[:hole], false, nil
	}
	if end := lastNewline(text, newline); end > 0 {
		return text[:end], false, nil
	}
	if hole := bytes.IndexByte(text, 0); hole > 0 && len(newline) == 1 && len(text) >= pieceBytes {
		return text[:hole], false, nil
	}
	if rest || len(text) >= pieceBytes {
		return text[:len(text)-len(text)%len(newline)], false, nil
	}
	// NULs at the end may be reserved space, which the program overwrites
	seen := bytes.TrimRight(text[:min(len(text), sampleBytes)], "\x00")
	o.seen = append(o.seen[:0], seen...)
	return nil, false, nil
}

// holeBytes is the maximum number of NULs that one call of endOfHole checks.
const holeBytes = 64 << 20

func (o *file) endOfHole() bool {
	if o.hole > o.offset && o.holeEnds {
		return true
	}
	// The buffer must fit into the window of a compressed file.
	text := make([]byte, pieceBytes)
	o.hole = max(o.hole, o.offset)
	for range holeBytes / len(text) {
		n, err := o.r.ReadAt(text, o.hole)
		zeros := n - len(bytes.TrimLeft(text[:n], "\x00"))
		o.hole += int64(zeros)
		if o.holeEnds = zeros < n; o.holeEnds || err != nil || n == 0 {
			break
		}
	}
	return o.holeEnds
}

// lastNewline returns the position after the last newline of a text, or 0 if the text has no
// newline. In UTF-16, the text must begin at a character, because newlines are found only at even
// positions.
func lastNewline(text, newline []byte) int {
	for end := len(text); ; end-- {
		at := bytes.LastIndex(text[:end], newline)
		if at < 0 {
			return 0
		}
		if end = at + len(newline); end%len(newline) == 0 {
			return end
		}
	}
}

func (o *file) take(text []byte) {
	o.offset += int64(len(text))
	o.seen, o.ended = o.seen[:0], false
	o.head = append(o.head, text[:min(len(text), sampleBytes-len(o.head))]...)
	o.before = append(o.before, text...)
	o.before = append(o.before[:0], o.before[max(0, len(o.before)-sampleBytes):]...)
}

func (o *file) mark() Mark {
	return Mark{
		ID:   idOf(o.info),
		Head: sampleOf(0, o.head),
		Tail: sampleOf(o.offset-int64(len(o.before)), o.before),
	}
}

// piece advances past raw, and returns the clean text of raw. It leaves out text that was returned
// before a restart.
func (o *file) piece(raw []byte) Piece {
	from := o.offset
	o.take(raw)
	text := o.clean.Clean(raw)
	drop := min(o.drop, int64(len(text)))
	o.drop -= drop
	o.closed = o.closed && drop == int64(len(text)) // new text may need another newline
	return Piece{
		Text: text[drop:], Skip: drop, File: o.number, From: from, To: o.offset, Mark: o.mark(),
	}
}

func (o *file) end() Piece {
	if o.closed || !o.within() {
		return Piece{}
	}
	o.endLine()
	return Piece{Text: []byte{'\n'}, File: o.number, From: o.offset, To: o.offset, Mark: o.mark()}
}

// endLine records that a newline was returned that is not in the file.
func (o *file) endLine() {
	o.ended = true
	o.clean.line, o.clean.within, o.clean.split = 0, false, ""
}

// isLost reports whether an unreadable file will stay so: it is a damaged or incomplete compressed
// file, or has been unreadable for leaveAfter.
func (o *file) isLost() bool {
	return o.r != o.f || !o.failed.IsZero() && time.Since(o.failed) > leaveAfter
}

// unread returns the number of bytes after the offset. For a compressed file the number is a rough
// estimate from the compressed size.
func (o *file) unread() int64 {
	info, err := o.f.Stat()
	if err != nil {
		return 0
	}
	return max(0, info.Size()-o.offset)
}

func (o *file) size() (int64, error) {
	if _, ok := o.r.(*packed); ok {
		return io.Copy(io.Discard, io.NewSectionReader(o.r, 0, 1<<62))
	}
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// last moves the offset to the beginning of a line near the end of the file. At most the given
// number of bytes follow.
func (o *file) last(most int64) error {
	size, err := o.size()
	if err != nil || size <= most {
		return err
	}
	head := make([]byte, min(2, size))
	if _, err := o.r.ReadAt(head, 0); err != nil {
		return err
	}
	o.encoding(head)
	k := int64(len(o.newlineKnown()))
	from := size - most - k
	from -= from % k
	n, err := o.r.ReadAt(o.buffer, from)
	if err != nil && err != io.EOF {
		return err
	}
	for at := 0; at+int(k) <= n; at += int(k) {
		if bytes.HasPrefix(o.buffer[at:n], o.newlineKnown()) {
			return o.seek(from + int64(at) + k)
		}
	}
	// the line is longer than the buffer, so the text begins within the line
	return o.seek(from + k)
}

// close ignores the error, because the file was only read.
func (o *file) close() { _ = o.f.Close() }
