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
	r      io.ReaderAt // f, or its unpacked content
	info   os.FileInfo
	offset int64  // offset of the next byte to read
	before []byte // the bytes before the offset, at most sampleBytes
	head   []byte // the first bytes of the file up to the offset, at most sampleBytes
	seen   []byte // the unfinished line after the offset, at most sampleBytes
	// the line before the offset lacks a newline in the file, and a newline was returned for it
	ended  bool
	number int // number of the file among those of a Follower
	// when to close a file that was rotated away; zero for the log's current file
	until   time.Time
	clean   Cleaner
	newline []byte // newline in the file's encoding; nil: not known yet
	// all bytes between the offset and hole are NUL; later bytes are not checked yet
	hole     int64
	holeEnds bool  // bytes other than NUL follow at hole
	drop     int64 // bytes of clean text after the offset that were already returned

	buffer []byte
}

// openFile opens a regular file to read it from the offset. It never blocks: a named pipe, whose
// opening could block, is refused.
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

// notRegular returns the error for a path whose file cannot be followed.
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

// seek sets the offset.
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

// cleanAs sets how the file is cleaned. It reads the text before the offset again to find the
// beginning of the current line. If that text cannot be read, cleaning begins at the offset.
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

// encoding detects the file's encoding, unless it is known already.
func (o *file) encoding(text []byte) {
	if head := append(bytes.Clone(o.head), text...); o.newline == nil && len(head) > 1 {
		o.newline = newlineOf(head)
		o.clean.decoder = decoderOf(o.newline)
	}
}

// within reports whether the last read ended within a line.
func (o *file) within() bool {
	open := len(o.before) > 0 && !bytes.HasSuffix(o.before, o.newlineKnown())
	return !o.ended && (open || o.clean.split != "")
}

// newlineKnown returns the file's newline, or that of UTF-8 if the encoding is not known yet.
func (o *file) newlineKnown() []byte {
	if o.newline == nil {
		return newline8
	}
	return o.newline
}

// peek returns the text after the offset: as many whole lines as fit into a piece, or the first
// piece of a longer line. If rest is true, it also returns an unfinished line. rewritten says that
// the file no longer has bytes that were seen before.
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
			return nil, false, nil // a program may have reserved this space for its output
		}
		return text[:hole], false, nil // a line begins after the NULs
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
	o.seen = append(o.seen[:0], text[:min(len(text), sampleBytes)]...)
	return nil, false, nil
}

// holeBytes is the maximum number of NULs that one call of endOfHole checks.
const holeBytes = 64 << 20

// endOfHole reports whether other bytes follow the NULs at the offset.
func (o *file) endOfHole() bool {
	if o.hole > o.offset && o.holeEnds {
		return true
	}
	// not larger, because a compressed file's window must contain it
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

// lastNewline returns the position after the last newline of a text, or 0 if it has no newline. The
// text must begin with a whole character.
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

// take advances past the text that peek returned.
func (o *file) take(text []byte) {
	o.offset += int64(len(text))
	o.seen, o.ended = o.seen[:0], false
	o.head = append(o.head, text[:min(len(text), sampleBytes-len(o.head))]...)
	o.before = append(o.before, text...)
	o.before = append(o.before[:0], o.before[max(0, len(o.before)-sampleBytes):]...)
}

// mark returns what identifies the file at the offset.
func (o *file) mark() Mark {
	return Mark{
		ID:   idOf(o.info),
		Head: sampleOf(0, o.head),
		Tail: sampleOf(o.offset-int64(len(o.before)), o.before),
	}
}

// piece advances past raw, and returns its clean text as a piece. It leaves out text that was
// returned before a restart.
func (o *file) piece(raw []byte) Piece {
	from := o.offset
	o.take(raw)
	text := o.clean.Clean(raw)
	drop := min(o.drop, int64(len(text)))
	o.drop -= drop
	return Piece{
		Text: text[drop:], Skip: drop, File: o.number, From: from, To: o.offset, Mark: o.mark(),
	}
}

// end returns a newline for the file's last line if the file lacks it, else an empty piece.
func (o *file) end() Piece {
	if !o.within() {
		return Piece{}
	}
	o.endLine()
	return Piece{Text: []byte{'\n'}, File: o.number, From: o.offset, To: o.offset, Mark: o.mark()}
}

// endLine records that a newline was returned for the line before the offset, although the file has
// none there.
func (o *file) endLine() {
	o.ended = true
	o.clean.line, o.clean.within, o.clean.split = 0, false, ""
}

// unread returns the number of bytes after the offset; 0 for a compressed file.
func (o *file) unread() int64 {
	info, err := o.f.Stat()
	if err != nil {
		return 0
	}
	return max(0, info.Size()-o.offset)
}

// size returns the number of bytes in the unpacked file.
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

// last sets the offset so that whole lines of at most the given number of bytes follow it.
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
	return o.seek(from + k) // no newline in this piece: begin within a long line
}

// close closes the file. Its error does not matter, because the file was only read.
func (o *file) close() { _ = o.f.Close() }
