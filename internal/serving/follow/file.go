package follow

import (
	"bytes"
	"io"
	"os"
	"time"
)

// pieceBytes is the most that a piece has. A line that is longer comes in several pieces.
const pieceBytes = 16 << 10

type file struct {
	f      *os.File
	info   os.FileInfo
	offset int64     // of the next byte to be read
	before []byte    // what stood in front of the offset, at most sampleBytes
	head   []byte    // the first bytes in front of the offset, at most sampleBytes
	seen   []byte    // of a line behind the offset that has no end yet, at most sampleBytes
	ended  bool      // the line in front of the offset was given a newline that the file has not
	number int       // of the file, among those of a Follower
	until  time.Time // when a file that is no longer the path's is left; zero: it is the path's

	buffer []byte
}

// openFile opens a file to be read from the offset on.
func openFile(path string, offset int64) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	o := &file{f: f, offset: offset, buffer: make([]byte, sampleBytes+pieceBytes)}
	if o.info, err = f.Stat(); err == nil {
		o.head = make([]byte, min(offset, sampleBytes))
		_, err = io.ReadFull(io.NewSectionReader(f, 0, offset), o.head)
	}
	if err == nil {
		o.before = make([]byte, min(offset, sampleBytes))
		_, err = f.ReadAt(o.before, offset-int64(len(o.before)))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return o, nil
}

// within reports whether the file was last read up to the middle of a line.
func (o *file) within() bool {
	return !o.ended && len(o.before) > 0 && o.before[len(o.before)-1] != '\n'
}

// peek returns what stands behind the offset: whole lines, as long as they fit, or as much as fits
// of a line that is longer; with rest, also a line that has no end yet. It is rewritten if what was
// seen is not there any more.
func (o *file) peek(rest bool) (text []byte, rewritten bool, err error) {
	n, err := o.f.ReadAt(o.buffer, o.offset-int64(len(o.before)))
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
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		return text[:end+1], false, nil
	}
	if rest || len(text) >= pieceBytes {
		return text, false, nil
	}
	o.seen = append(o.seen[:0], text[:min(len(text), sampleBytes)]...)
	return nil, false, nil
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

// piece is text of a file, up to the offset.
func (o *file) piece(text []byte, from int64) Piece {
	return Piece{Text: text, File: o.number, From: from, To: o.offset, Mark: o.mark()}
}

// end is the newline that the file's last line has not; nothing if it has one.
func (o *file) end() Piece {
	if !o.within() {
		return Piece{}
	}
	o.ended = true
	return o.piece([]byte{'\n'}, o.offset)
}

// unread is the number of bytes behind the offset.
func (o *file) unread() int64 {
	info, err := o.f.Stat()
	if err != nil {
		return 0
	}
	return max(0, info.Size()-o.offset)
}

func (o *file) close() { _ = o.f.Close() } // it was only read
