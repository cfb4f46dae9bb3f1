package follow

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var unpackers = map[string]func(io.Reader) (io.Reader, error){
	".gz": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	".zst": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	},
}

// unpackedName returns the name of a compressed file without its extension. ok is false if the name
// is not that of a compressed file.
func unpackedName(name string) (plain string, ok bool) {
	ext := filepath.Ext(name)
	_, ok = unpackers[ext]
	if !ok {
		return name, false
	}
	return strings.TrimSuffix(name, ext), true
}

// packed reads a compressed file at any position. For a position before the window, it decompresses
// the file again from the beginning.
type packed struct {
	f      *os.File
	unpack func(io.Reader) (io.Reader, error)
	r      io.Reader
	window []byte
	end    int64 // offset of the byte after the window
}

// windowBytes is the maximum number of decompressed bytes in memory. It must exceed two pieces,
// because one read may touch three pieces.
const windowBytes = 4 * pieceBytes

func (p *packed) ReadAt(b []byte, at int64) (n int, err error) {
	if begin := p.end - int64(len(p.window)); p.r == nil || at < begin {
		if p.r, err = p.unpack(io.NewSectionReader(p.f, 0, 1<<62)); err != nil {
			p.r = nil
			return 0, fmt.Errorf("%s: %w", p.f.Name(), err)
		}
		p.window, p.end = p.window[:0], 0
	}
	for p.end < at+int64(len(b)) {
		if err = p.more(); err != nil {
			break
		}
	}
	begin := p.end - int64(len(p.window))
	if at < p.end {
		n = copy(b, p.window[at-begin:])
	}
	if n < len(b) && err == nil {
		err = io.EOF
	}
	if err != nil && err != io.EOF {
		return n, fmt.Errorf("%s: %w", p.f.Name(), err)
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

func (p *packed) more() error {
	if len(p.window) > windowBytes-pieceBytes {
		p.window = append(p.window[:0], p.window[pieceBytes:]...)
	}
	had := len(p.window)
	p.window = append(p.window, make([]byte, pieceBytes)...)
	n := 0
	var err error
	for n < pieceBytes && err == nil {
		var k int
		k, err = p.r.Read(p.window[had+n:])
		n += k
	}
	p.window, p.end = p.window[:had+n], p.end+int64(n)
	return err
}
