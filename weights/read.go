package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

const (
	zstdMagic = "\x28\xb5\x2f\xfd"
	// maxZstdWindow is the largest window of files that the zstd command writes without --long.
	maxZstdWindow = 128 << 20
	// readStep is the maximum allocation that a false size in a header can cause. Larger buffers
	// grow as their data arrives.
	readStep = 16 << 20
)

// Limits restrict what Read accepts. A zero field means the default: MaxHeaderBytes, MaxDataBytes,
// MaxTensors, or 128 MiB for Window.
type Limits struct {
	HeaderBytes int64
	DataBytes   int64 // after decompression
	Tensors     int
	Window      int64 // maximum window of a zstd stream, which the decoder allocates
}

func (l Limits) withDefaults() Limits {
	if l.HeaderBytes == 0 {
		l.HeaderBytes = MaxHeaderBytes
	}
	if l.DataBytes == 0 {
		l.DataBytes = MaxDataBytes
	}
	if l.Tensors == 0 {
		l.Tensors = MaxTensors
	}
	if l.Window == 0 {
		l.Window = maxZstdWindow
	}
	return l
}

// ReadFile reads a regular file of weights, compressed or not. It refuses pipes, because a server
// that reloads a pipe could wait forever.
func ReadFile(path string) (*File, error) {
	r, err := reload.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	defer r.Close()
	f, err := Read(r, Limits{})
	if err != nil {
		return nil, inFile(err, path)
	}
	return f, nil
}

// Read reads weights until the end of r. It detects compression by zstd's magic number. It
// allocates memory as data arrives: a false size in r costs at most 16 MiB, and a zstd window at
// most Limits.Window.
func Read(r io.Reader, l Limits) (*File, error) {
	var f *File
	err := Scan(r, l, func(s *Stored) (err error) {
		f, err = s.Load()
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Scan reads a file like Read, but without keeping the data in memory. It calls use after reading
// the header. Before use returns, the function may read each tensor once, from its beginning and in
// the order of the file. Afterwards Scan reads r to the end. If use returns an error, Scan returns
// this error.
func Scan(r io.Reader, l Limits, use func(*Stored) error) error {
	return decompressed(r, l.withDefaults(), func(r io.Reader, l Limits) error {
		o, err := open(r, l)
		if err != nil {
			return err
		}
		in := &incoming{r: r, opened: o}
		if err := use(in.stored()); err != nil {
			return err
		}
		return in.finish()
	})
}

// decompressed calls read with the decompressed content of r.
func decompressed(r io.Reader, l Limits, read func(io.Reader, Limits) error) error {
	src := &source{r: r}
	buffered := bufio.NewReaderSize(src, 64<<10)
	magic, _ := buffered.Peek(len(zstdMagic)) // an error here recurs when the header is read
	if string(magic) != zstdMagic {
		return read(buffered, l)
	}
	decoder, err := zstd.NewReader(buffered,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(l.Window)))
	if err != nil {
		return fmt.Errorf("weights: zstd: %w", err)
	}
	defer decoder.Close()
	return read(&decompressor{decoder: decoder, src: src, window: l.Window}, l)
}

type opened struct {
	header
	base int64 // offset of the data in the file
}

func open(r io.Reader, l Limits) (*opened, error) {
	text, err := readHeader(r, l)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(text, l)
	if err != nil {
		return nil, err
	}
	return &opened{header: h, base: int64(prefixBytes + len(text))}, nil
}

// short returns the error for a tensor i of which only the first got bytes could be read.
func (o *opened) short(err error, i, got int) error {
	e := &o.entries[i]
	return short(err, tensorField(e.name, "data"), o.base+e.begin, got, e.end-e.begin)
}

// end checks that r has no bytes after the data.
func (o *opened) end(r io.Reader) error {
	var extra [1]byte
	switch _, err := io.ReadFull(r, extra[:]); err {
	case io.EOF:
		return nil
	case nil:
		end := o.base
		if n := len(o.entries); n > 0 {
			end += o.entries[n-1].end
		}
		return &Error{Where: "end of the data", Offset: end, Found: "more bytes",
			Want: "the end of the file", Kind: ErrFormat}
	default: // an error of the disk, or a wrong zstd checksum
		return passed(err)
	}
}

func readHeader(r io.Reader, l Limits) ([]byte, error) {
	prefix, err := readN(r, prefixBytes)
	if err != nil {
		return nil, short(err, "header length", 0, len(prefix), prefixBytes)
	}
	n := binary.LittleEndian.Uint64(prefix)
	if n > uint64(l.HeaderBytes) {
		return nil, &Error{Where: "header length", Found: strconv.FormatUint(n, 10),
			Want: "at most " + strconv.FormatInt(l.HeaderBytes, 10) +
				", if this is a safetensors file", Kind: ErrTooLarge}
	}
	text, err := readN(r, int(n))
	if err != nil {
		return nil, short(err, "header", prefixBytes, len(text), int64(n))
	}
	return text, nil
}

// readN reads n bytes. If it reads fewer, it also returns an error. The buffer doubles as bytes
// arrive, so that a false n costs at most readStep.
func readN(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, readStep))
	for done := 0; ; {
		got, err := io.ReadFull(r, buf[done:])
		done += got
		if err != nil || done == n {
			return buf[:done], err
		}
		buf = append(make([]byte, 0, min(n, 2*done)), buf...)
		buf = buf[:cap(buf)]
	}
}

// short returns an error for incomplete input: ErrTruncated if the input ended early, else the read
// error.
func short(err error, where string, offset int64, got int, want int64) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return passed(err)
	}
	return &Error{Where: where, Offset: offset, Found: strconv.Itoa(got) + " bytes",
		Want: strconv.FormatInt(want, 10), Kind: ErrTruncated}
}

// passed adds context to a read error. It returns an *Error unchanged.
func passed(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("weights: reading: %w", err)
}

// source records the error of the underlying reader, so that a failing disk is not reported as a
// damaged zstd stream.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	s.err = err
	return n, err
}

// decompressor converts errors of the zstd decoder into errors of kind ErrZstd. They also match
// ErrTruncated if the stream ends too early, or ErrTooLarge if its window exceeds the limit.
type decompressor struct {
	decoder *zstd.Decoder
	src     *source
	window  int64
	pos     int64
}

func (d *decompressor) Read(p []byte) (int, error) {
	n, err := d.decoder.Read(p)
	d.pos += int64(n)
	if err == nil || err == io.EOF {
		return n, err
	}
	if d.src.err != nil && d.src.err != io.EOF {
		return n, d.src.err
	}
	e := &Error{Where: "zstd stream", Offset: d.pos, Found: err.Error(), Want: "sound data",
		Kind: ErrZstd}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind = fmt.Errorf("%w: %w", ErrZstd, ErrTruncated)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		e.Want = "a window of at most " + strconv.FormatInt(d.window, 10) + " bytes"
		e.Kind = fmt.Errorf("%w: %w", ErrZstd, ErrTooLarge)
	}
	return n, e
}
