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

// pieceBytes is the most that is read of a file at once.
const pieceBytes = 2 * lineMax

type file struct {
	f        *os.File
	r        io.ReaderAt // f, or what f has when it is unpacked
	info     os.FileInfo
	offset   int64     // of the next byte to be read
	before   []byte    // what stood in front of the offset, at most sampleBytes
	head     []byte    // the first bytes in front of the offset, at most sampleBytes
	seen     []byte    // of a line behind the offset that has no end yet, at most sampleBytes
	ended    bool      // the line in front of the offset was given a newline that the file has not
	number   int       // of the file, among those of a Follower
	until    time.Time // when a file that is no longer the path's is left; zero: it is the path's
	clean    Cleaner
	newline  []byte // by the encoding of the file; nil: not known yet
	hole     int64  // from the offset up to here all is NUL, as far as was looked
	holeEnds bool   // something stands there
	drop     int64  // how much of the clean text behind the offset was given before

	buffer []byte
}

// openFile opens a regular file, to be read from the offset on. It never waits, as the opening of a
// named pipe does.
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

// notRegular is the error that a path has no file that can be followed.
func notRegular(path string, info os.FileInfo) error {
	what := "no regular file"
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

// cleanAs sets how the file is cleaned. How much of a line stands in front of the offset is found
// by reading that again; what cannot be read is not there.
func (o *file) cleanAs(notes *Notes, field []string) {
	o.clean.Notes, o.clean.Field = notes, field
	o.encoding(nil)
	newline := o.newlineKnown()
	text := make([]byte, min(o.offset, int64(len(newline))*pieceBytes))
	n, _ := o.r.ReadAt(text, o.offset-int64(len(text)))
	text = text[:n]
	last, ended := bytes.CutSuffix(text, newline)
	if last = last[lastNewline(last, newline):]; ended && !container.Match(last) {
		if _, ok := dockerLog(last); !ok { // mostly
			return
		}
	}
	_, whole, ok := bytes.Cut(text, newline8)
	if ok && int64(len(text)) < o.offset && len(newline) == 1 {
		text = whole // the line before has no beginning
	}
	tidy := o.clean
	tidy.Notes = &Notes{}
	tidy.Clean(text)
	o.clean.line, o.clean.within, o.clean.split = tidy.line, tidy.within, tidy.split
}

// encoding finds out which encoding the file has, if that is not known.
func (o *file) encoding(text []byte) {
	if head := append(bytes.Clone(o.head), text...); o.newline == nil && len(head) > 1 {
		o.newline = newlineOf(head)
		o.clean.decoder = decoderOf(o.newline)
	}
}

// within reports whether the file was last read up to the middle of a line.
func (o *file) within() bool {
	open := len(o.before) > 0 && !bytes.HasSuffix(o.before, o.newlineKnown())
	return !o.ended && (open || o.clean.split != "")
}

// newlineKnown is the file's newline, as far as is known.
func (o *file) newlineKnown() []byte {
	if o.newline == nil {
		return newline8
	}
	return o.newline
}

// peek returns what stands behind the offset: whole lines, as long as they fit, or as much as fits
// of a line that is longer; with rest, also a line that has no end yet. It is rewritten if what was
// seen is not there any more.
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
			return nil, false, nil // a program may have room there for what it writes
		}
		return text[:hole], false, nil // a line begins behind it
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

// holeBytes is how much of a hole is looked at before something else is done.
const holeBytes = 64 << 20

// endOfHole reports whether something stands behind the NULs that stand behind the offset.
func (o *file) endOfHole() bool {
	if o.hole > o.offset && o.holeEnds {
		return true
	}
	text := make([]byte, pieceBytes) // more than that is not in the window of a compressed file
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

// lastNewline is the place behind the last newline of a text that begins with a whole character; 0
// if the text has none.
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

// take goes on behind the text, which peek has returned.
func (o *file) take(text []byte) {
	o.offset += int64(len(text))
	o.seen, o.ended = o.seen[:0], false
	o.head = append(o.head, text[:min(len(text), sampleBytes-len(o.head))]...)
	o.before = append(o.before, text...)
	o.before = append(o.before[:0], o.before[max(0, len(o.before)-sampleBytes):]...)
}

// mark tells the file from others, at the offset.
func (o *file) mark() Mark {
	return Mark{
		ID:   idOf(o.info),
		Head: sampleOf(0, o.head),
		Tail: sampleOf(o.offset-int64(len(o.before)), o.before),
	}
}

// piece takes in what was read, and makes a piece of it, without what was given before.
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

// end is the newline that the file's last line has not; nothing if it has one.
func (o *file) end() Piece {
	if !o.within() {
		return Piece{}
	}
	o.endLine()
	return Piece{Text: []byte{'\n'}, File: o.number, From: o.offset, To: o.offset, Mark: o.mark()}
}

// endLine notes that the line in front of the offset was given a newline that the file has not.
func (o *file) endLine() {
	o.ended = true
	o.clean.line, o.clean.within, o.clean.split = 0, false, ""
}

// unread is the number of bytes behind the offset; 0 of a compressed file.
func (o *file) unread() int64 {
	info, err := o.f.Stat()
	if err != nil {
		return 0
	}
	return max(0, info.Size()-o.offset)
}

// size is the number of bytes that the file has, once it is unpacked.
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

// last sets the offset from which on the file has at most so many bytes, of whole lines.
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
	return o.seek(from + k) // within a line that is long
}

func (o *file) close() { _ = o.f.Close() } // it was only read
