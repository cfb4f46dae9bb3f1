package weights

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Stored is a file of weights whose data is not in memory. Readers read each tensor from its place
// in storage. A Stored needs memory only for the header and a buffer, however large the file is.
type Stored struct {
	// Metadata maps keys to arbitrary text.
	Metadata map[string]string
	// Tensors are in the order of their data in the file.
	Tensors []StoredTensor
}

// StoredTensor is one named array in row-major order. Its data need not be in memory.
type StoredTensor struct {
	Name  string
	DType DType
	Shape []int       // empty for a scalar; a dimension may be 0
	Bytes int64       // size of the data: Elements * DType.Size
	Data  io.ReaderAt // Data has the bytes of the file, little endian, at offsets 0 to Bytes-1.
}

// storedBufferBytes is the size of the copy buffer, a multiple of the size of every element type.
const storedBufferBytes = 64 << 10

// Stored returns a Stored with the content of f. Both share the data.
func (f *File) Stored() *Stored {
	s := &Stored{Metadata: f.Metadata, Tensors: make([]StoredTensor, len(f.Tensors))}
	for i := range f.Tensors {
		s.Tensors[i] = f.Tensors[i].stored()
	}
	return s
}

// Load reads the data of all tensors into memory. It allocates memory as data arrives.
func (s *Stored) Load() (*File, error) {
	f := &File{Metadata: maps.Clone(s.Metadata), Tensors: make([]Tensor, len(s.Tensors))}
	for i := range s.Tensors {
		t := &s.Tensors[i]
		data, err := readN(t.Reader(), int(t.Bytes))
		if err != nil {
			return nil, t.unread(err)
		}
		f.Tensors[i] = Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: data}
	}
	return f, nil
}

// Tensor returns the tensor with the given name, or false if there is none.
func (s *Stored) Tensor(name string) (*StoredTensor, bool) {
	for i := range s.Tensors {
		if s.Tensors[i].Name == name {
			return &s.Tensors[i], true
		}
	}
	return nil, false
}

// Reader returns a new reader of the tensor's data, from the beginning.
func (t *StoredTensor) Reader() *io.SectionReader { return io.NewSectionReader(t.Data, 0, t.Bytes) }

// Elements returns the number of elements, which is 1 for a scalar.
func (t *StoredTensor) Elements() int {
	n, _ := product(t.Shape)
	return n
}

// unread adds the tensor's name to an error of reading its data. It returns an *Error unchanged.
func (t *StoredTensor) unread(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("weights: reading tensor %s: %w", quote(t.Name), err)
}

// check applies the reader's conditions to a tensor that a caller made.
func (t *StoredTensor) check() error {
	size, err := byteSize(t.DType, t.Shape)
	if err == nil && t.Bytes != int64(size) {
		err = &Error{Where: "data", Found: strconv.FormatInt(t.Bytes, 10) + " bytes",
			Want: strconv.Itoa(size) + " bytes for " + describe(t.DType, t.Shape)}
	}
	if err == nil {
		return nil
	}
	err.Where = tensorField(t.Name, err.Where)
	err.Offset, err.Kind = -1, ErrFormat
	return err
}

// Hash returns the hash that File.Hash returns for equal content. It returns an error if a tensor
// cannot be read.
func (s *Stored) Hash() (string, error) {
	h := sha256.New()
	number := func(n int64) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	text := func(t string) { number(int64(len(t))); io.WriteString(h, t) }

	io.WriteString(h, hashTag)
	number(int64(len(s.Metadata)))
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		text(key)
		text(s.Metadata[key])
	}
	number(int64(len(s.Tensors)))
	byName := func(a, b StoredTensor) int { return cmp.Compare(a.Name, b.Name) }
	buffer := make([]byte, storedBufferBytes)
	for _, t := range slices.SortedStableFunc(slices.Values(s.Tensors), byName) {
		text(t.Name)
		text(string(t.DType))
		number(int64(len(t.Shape)))
		for _, d := range t.Shape {
			number(int64(d))
		}
		number(t.Bytes)
		if err := t.copyTo(h, buffer); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (t *StoredTensor) copyTo(w io.Writer, buffer []byte) error {
	in := &source{r: t.Reader()}
	// The wrappers hide the methods WriteTo and ReadFrom. So io.CopyBuffer uses the buffer, and
	// each Write gets whole elements.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{in}, buffer)
	switch {
	case in.err != nil && in.err != io.EOF:
		return t.unread(in.err)
	case err != nil:
		return fmt.Errorf("weights: writing tensor %s: %w", quote(t.Name), err)
	case n != t.Bytes:
		return t.unread(io.ErrUnexpectedEOF)
	}
	return nil
}

// Write writes the file to w, like the function Write.
func (s *Stored) Write(w io.Writer) error {
	text, err := makeHeader(s)
	if err != nil {
		return err
	}
	prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	for _, part := range [][]byte{prefix, text} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("weights: writing the header: %w", err)
		}
	}
	buffer := make([]byte, storedBufferBytes)
	for i := range s.Tensors {
		if err := s.Tensors[i].copyTo(w, buffer); err != nil {
			return err
		}
	}
	return nil
}

// Keep writes the data of all tensors to w, without gaps. It returns a Stored whose data is read
// from parameter `at`. From offset 0, at must contain the bytes that Keep wrote to w.
func (s *Stored) Keep(w io.Writer, at io.ReaderAt) (*Stored, error) {
	kept := &Stored{Metadata: s.Metadata, Tensors: slices.Clone(s.Tensors)}
	buffer := make([]byte, storedBufferBytes)
	var begin int64
	for i := range kept.Tensors {
		t := &kept.Tensors[i]
		if err := t.copyTo(w, buffer); err != nil {
			return nil, err
		}
		t.Data = io.NewSectionReader(at, begin, t.Bytes)
		begin += t.Bytes
	}
	return kept, nil
}
