package weights

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

// WriteOptions configures the writing of a file. The zero value means no compression.
type WriteOptions struct {
	// Zstd is the zstd compression level, 1 to 22; 0 means no compression.
	Zstd int
}

// zstdLevel is the level for models, which are written once and read often.
const zstdLevel = 19

// OptionsFor returns the options for writing a model to path. The file is compressed if path ends
// in .zst.
func OptionsFor(path string) WriteOptions {
	if filepath.Ext(path) == ".zst" {
		return WriteOptions{Zstd: zstdLevel}
	}
	return WriteOptions{}
}

// Validate returns an error if the compression level is out of range.
func (o WriteOptions) Validate() error {
	if o.Zstd < 0 || o.Zstd > 22 {
		return fmt.Errorf("weights: zstd level: found %d, expected 0 (no compression) to "+
			"22", o.Zstd)
	}
	return nil
}

// WriteFile writes f to path atomically. If it returns an error, the file at path is unchanged,
// with one exception: the last step, which syncs the folder, may fail after the file was replaced.
func WriteFile(path string, f *File, o WriteOptions) error { return f.Stored().WriteFile(path, o) }

// WriteFile writes the file to path, like the function WriteFile.
func (s *Stored) WriteFile(path string, o WriteOptions) error {
	if err := o.Validate(); err != nil {
		return err
	}
	var content error // an error that already names its tensor or metadata key
	err := atomicfile.Write(path, atomicfile.Options{}, func(w io.Writer) error {
		if o.Zstd == 0 {
			content = s.Write(w)
		} else {
			content = s.writeZstd(w, o.Zstd)
		}
		return content
	})
	switch {
	case content != nil:
		return inFile(err, path)
	case err != nil:
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

// Write writes f to w without compression. The bytes depend only on f: tensors keep their order,
// and metadata is sorted by key. The header is padded so that the data starts at a multiple of 8.
// If f violates the format or a limit, Write returns ErrFormat or ErrTooLarge and writes nothing.
func Write(w io.Writer, f *File) error { return f.Stored().Write(w) }

func (s *Stored) writeZstd(w io.Writer, level int) error {
	// With one goroutine, the compressed bytes do not depend on the number of cores.
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
	if err != nil {
		return fmt.Errorf("weights: zstd: %w", err)
	}
	err = s.Write(encoder)
	if closing := encoder.Close(); err == nil && closing != nil {
		err = fmt.Errorf("weights: zstd: %w", closing)
	}
	return err
}

func makeHeader(f *Stored) ([]byte, error) {
	if len(f.Tensors) > MaxTensors {
		return nil, &Error{Where: "file", Offset: -1, Found: strconv.Itoa(len(f.Tensors)) +
			" tensors",
			Want: "at most " + strconv.Itoa(MaxTensors), Kind: ErrTooLarge}
	}
	b, err := appendMetadata([]byte{'{'}, f.Metadata)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(f.Tensors))
	var offset int64
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if err := checkName(t.Name, seen); err != nil {
			return nil, err
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		end := offset + t.Bytes
		b = appendEntry(b, t, offset, end)
		offset = end
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b, checkSizes(int64(len(b)), offset)
}

func checkName(name string, seen map[string]bool) error {
	wrong := func(found, want string) error {
		return &Error{Where: "tensor " + quote(name), Offset: -1, Found: found, Want: want,
			Kind: ErrFormat}
	}
	switch {
	case !utf8.ValidString(name):
		return wrong("a name that is not UTF-8", "UTF-8")
	case name == metadataKey:
		return wrong("the format's own name for the metadata", "another name")
	case seen[name]:
		return wrong("the same name again", "every name once")
	}
	seen[name] = true
	return nil
}

func checkSizes(header, data int64) error {
	if header > MaxHeaderBytes {
		return &Error{Where: "header", Offset: -1, Found: strconv.FormatInt(header, 10) + " bytes",
			Want: "at most " + strconv.Itoa(MaxHeaderBytes), Kind: ErrTooLarge}
	}
	if data > MaxDataBytes {
		return &Error{Where: "data", Offset: -1, Found: strconv.FormatInt(data, 10) + " bytes",
			Want: "at most " + strconv.FormatInt(MaxDataBytes, 10), Kind: ErrTooLarge}
	}
	return nil
}

func appendMetadata(b []byte, metadata map[string]string) ([]byte, error) {
	if len(metadata) == 0 {
		return b, nil
	}
	b = append(appendString(b, metadataKey), ":{"...)
	for i, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, &Error{Where: "metadata " + quote(key), Offset: -1,
				Found: "text that is not UTF-8", Want: "UTF-8", Kind: ErrFormat}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(appendString(b, key), ':'), value)
	}
	return append(b, '}'), nil
}

func appendEntry(b []byte, t *StoredTensor, begin, end int64) []byte {
	b = appendString(b, t.Name)
	b = append(b, `:{"dtype":"`+string(t.DType)+`","shape":[`...)
	for i, d := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	b = append(b, `],"data_offsets":[`...)
	b = strconv.AppendInt(b, begin, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, end, 10)
	return append(b, "]}"...)
}

// appendString appends s, which must be valid UTF-8, to b as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
