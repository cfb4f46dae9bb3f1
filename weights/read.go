package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic = "\x28\xb5\x2f\xfd"
	// maxZstdWindow is the largest window that zstd makes without --long. The
	// decoder allocates what the stream asks for up to this.
	maxZstdWindow = 128 << 20
	// readStep is allocated on the word of a header alone; what is larger
	// grows as its bytes arrive.
	readStep = 16 << 20
)

// Limits narrow what Read accepts. A zero field means this package's constant:
// MaxHeaderBytes, MaxDataBytes, MaxTensors.
type Limits struct {
	HeaderBytes int64
	DataBytes   int64 // after decompression
	Tensors     int
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
	return l
}

// ReadFile reads a file of weights, compressed or not.
func ReadFile(path string) (*File, error) {
	r, err := os.Open(path)
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

// Read reads weights to the end of r. Whether they are compressed is told by
// zstd's magic number. Memory is taken as data arrives: what r claims to hold
// and does not costs 16 MiB at most, and a zstd window up to 128 MiB.
func Read(r io.Reader, l Limits) (*File, error) {
	src := &source{r: r}
	buffered := bufio.NewReaderSize(src, 64<<10)
	magic, _ := buffered.Peek(len(zstdMagic)) // too short a file fails below, at its header
	if string(magic) != zstdMagic {
		return read(buffered, l.withDefaults())
	}
	decoder, err := zstd.NewReader(buffered,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("weights: zstd: %w", err)
	}
	defer decoder.Close()
	return read(&decompressor{decoder: decoder, src: src}, l.withDefaults())
}

// read reads the decompressed file.
func read(r io.Reader, l Limits) (*File, error) {
	text, err := readHeader(r, l)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(text, l)
	if err != nil {
		return nil, err
	}
	base := int64(prefixBytes + len(text)) // of the data in the file
	f := &File{Metadata: h.metadata, Tensors: make([]Tensor, len(h.entries))}
	end := base
	for i, e := range h.entries {
		data, err := readN(r, int(e.end-e.begin))
		if err != nil {
			return nil, short(err, tensorField(e.name, "data"), base+e.begin, len(data), e.end-e.begin)
		}
		f.Tensors[i] = Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: data}
		end = base + e.end
	}
	var extra [1]byte
	switch _, err := io.ReadFull(r, extra[:]); err {
	case io.EOF:
		return f, nil
	case nil:
		return nil, &Error{Where: "end of the data", Offset: end, Found: "more bytes", Want: "the end of the file", Kind: ErrFormat}
	default: // of the disk, or of zstd's checksum, which comes last
		return nil, passed(err)
	}
}

// readHeader reads the JSON text at the start of the file.
func readHeader(r io.Reader, l Limits) ([]byte, error) {
	prefix, err := readN(r, prefixBytes)
	if err != nil {
		return nil, short(err, "header length", 0, len(prefix), prefixBytes)
	}
	n := binary.LittleEndian.Uint64(prefix)
	if n > uint64(l.HeaderBytes) {
		return nil, &Error{Where: "header length", Found: strconv.FormatUint(n, 10),
			Want: "at most " + strconv.FormatInt(l.HeaderBytes, 10) + ", if this is a safetensors file", Kind: ErrTooLarge}
	}
	text, err := readN(r, int(n))
	if err != nil {
		return nil, short(err, "header", prefixBytes, len(text), int64(n))
	}
	return text, nil
}

// readN reads n bytes, or what there is together with the reason. The buffer
// doubles as bytes arrive, so that a false n costs at most readStep.
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

// short turns the end of input in the middle of something into ErrTruncated.
func short(err error, where string, offset int64, got int, want int64) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return passed(err)
	}
	return &Error{Where: where, Offset: offset, Found: strconv.Itoa(got) + " bytes",
		Want: strconv.FormatInt(want, 10), Kind: ErrTruncated}
}

// passed hands on an error of the reader below.
func passed(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("weights: reading: %w", err)
}

// source remembers the error of the reader below, so that a failing disk is
// not taken for a damaged zstd stream.
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

// decompressor turns the zstd decoder's errors into ErrZstd; into ErrTruncated
// as well where the stream ends too early, or ErrTooLarge where it asks for too
// large a window.
type decompressor struct {
	decoder *zstd.Decoder
	src     *source
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
	e := &Error{Where: "zstd stream", Offset: d.pos, Found: err.Error(), Want: "sound data", Kind: ErrZstd}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind = fmt.Errorf("%w: %w", ErrZstd, ErrTruncated)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		e.Want = "a window of at most " + strconv.Itoa(maxZstdWindow) + " bytes"
		e.Kind = fmt.Errorf("%w: %w", ErrZstd, ErrTooLarge)
	}
	return n, e
}
