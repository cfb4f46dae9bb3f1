// Package weights reads and writes files of weights in the safetensors format, plain or compressed
// with zstd. The metadata contains the configuration and the tokenizer as strings. The reader
// treats every file as hostile: it checks the whole file, to the last byte. docs/formats.md
// describes the format.
package weights

import (
	"bytes"
	"math"
	"strconv"
)

// These limits bound the memory that a hostile file can make the reader allocate. Write also
// refuses files beyond the limits, so that ReadFile accepts every file that Write makes.
const (
	// MaxHeaderBytes limits the JSON header. A model of a hundred layers needs about 200 KiB.
	MaxHeaderBytes = 16 << 20
	// MaxDataBytes limits the tensor data after decompression. The largest served model (151 M
	// weights) needs 0.6 GB. Its training checkpoint, with two moments for each weight, needs 1.8
	// GB.
	MaxDataBytes = 4 << 30
	// MaxTensors limits the number of tensors.
	MaxTensors = 1 << 16
	// MaxRank limits the number of dimensions of a tensor.
	MaxRank = 8
)

// A file begins with the length of the header, a little-endian integer of prefixBytes bytes. Then
// comes the header, which contains the metadata under metadataKey. The data is last.
const (
	prefixBytes = 8
	metadataKey = "__metadata__"
)

// DType is an element type of tensors, by its name in safetensors.
type DType string

// These are the supported element types. Other types of safetensors are refused.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	U8   DType = "U8"
)

const knownDTypes = "F64, F32, F16, BF16, I64, I32 or U8"

// Size returns the number of bytes of one element, or 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case F64, I64:
		return 8
	case F32, I32:
		return 4
	case F16, BF16:
		return 2
	case U8:
		return 1
	}
	return 0
}

// Tensor is one named array in row-major order.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // empty for a scalar; dimensions may be 0
	Data  []byte // little endian, as in the file; the length is Elements * DType.Size
}

// Elements returns the number of elements, which is 1 for a scalar.
func (t *Tensor) Elements() int {
	n, _ := product(t.Shape)
	return n
}

// File is the content of a safetensors file.
type File struct {
	// Metadata maps keys to arbitrary text. It is never nil after Read.
	Metadata map[string]string
	// Tensors are in the order of their data in the file.
	Tensors []Tensor
}

// Tensor returns the tensor with the given name, or false if there is none. It does not copy the
// data.
func (f *File) Tensor(name string) (*Tensor, bool) {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			return &f.Tensors[i], true
		}
	}
	return nil, false
}

// product returns the product of the dimensions. ok is false if a dimension is negative or the
// product overflows int.
func product(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > math.MaxInt/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// check applies the reader's conditions to a tensor that a caller made.
func (t *Tensor) check() error {
	stored := t.stored()
	return stored.check()
}

func (t *Tensor) stored() StoredTensor {
	return StoredTensor{
		Name: t.Name, DType: t.DType, Shape: t.Shape, Bytes: int64(len(t.Data)),
		Data: bytes.NewReader(t.Data),
	}
}

// byteSize returns the number of bytes of a tensor with the given type and shape. The error names
// only the invalid field, dtype or shape. The caller adds tensor and offset.
func byteSize(d DType, shape []int) (int, *Error) {
	if d.Size() == 0 {
		return 0, &Error{Where: "dtype", Found: quote(string(d)), Want: knownDTypes}
	}
	if len(shape) > MaxRank {
		return 0, &Error{Where: "shape", Found: strconv.Itoa(len(shape)) + " dimensions",
			Want: "at most " + strconv.Itoa(MaxRank)}
	}
	n, ok := product(shape)
	if !ok || n > math.MaxInt/d.Size() {
		return 0, &Error{Where: "shape", Found: describe(d, shape),
			Want: "dimensions >= 0 whose bytes can be counted in " + strconv.Itoa(strconv.IntSize) +
				" bits"}
	}
	return n * d.Size(), nil
}

// describe formats a type and shape as "F32[2,3]".
func describe(d DType, shape []int) string {
	b := []byte(d)
	b = append(b, '[')
	for i, n := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, ']'))
}
