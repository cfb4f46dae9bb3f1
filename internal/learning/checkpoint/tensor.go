package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/lmserve/lmserve/weights"
)

// Tensor describes a named array of a checkpoint. Load returns the array's data.
type Tensor struct {
	Name  string
	DType weights.DType // "" for a type that package weights does not support, such as bool
	Shape []int
	// Load returns the elements in row-major order, little endian and without gaps.
	Load func() ([]byte, error)
	view view // the zero value for a tensor of a safetensors file
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// sameData reports whether two tensors have the same bytes. Tied weights, which are the same part
// of one storage, are not read.
func sameData(a, b Tensor) (bool, error) {
	if a.view.storage != nil && a.view.equal(b.view) {
		return true, nil
	}
	if a.DType != b.DType || elements(a.Shape) != elements(b.Shape) {
		return false, nil
	}
	left, err := a.Load()
	if err != nil {
		return false, err
	}
	right, err := b.Load()
	return err == nil && bytes.Equal(left, right), err
}

type element struct {
	class string
	size  int
	dtype weights.DType // "" if package weights does not support the type
}

// elementTypes are the element types that torch.save writes.
var elementTypes = []element{
	{"FloatStorage", 4, weights.F32}, {"HalfStorage", 2, weights.F16},
	{"BFloat16Storage", 2, weights.BF16}, {"DoubleStorage", 8, weights.F64},
	{"LongStorage", 8, weights.I64}, {"IntStorage", 4, weights.I32}, {"ShortStorage", 2, ""},
	{"ByteStorage", 1, weights.U8}, {"CharStorage", 1, ""}, {"BoolStorage", 1, ""},
}

// storage is an array of elements in the file. Several tensors may share a storage.
type storage struct {
	key     string
	element element
	count   int64
	data    io.ReaderAt // nil until the storage is found in the file
}

// view describes the part of a storage that belongs to a tensor. Element (i, j, ...) of the tensor
// is element offset + i*stride[0] + j*stride[1] + ... of the storage.
type view struct {
	storage       *storage
	offset        int64
	shape, stride []int
}

func (v view) equal(w view) bool {
	return v.storage == w.storage && v.offset == w.offset &&
		fmt.Sprint(v.shape, v.stride) == fmt.Sprint(w.shape, w.stride)
}

// check returns an error unless the storage contains every element of the view. A view that repeats
// elements could have any size, so a view larger than the storage is also an error.
func (v view) check() error {
	where := "tensor over storage " + quote(v.storage.key)
	wrong := func(want string) error {
		return malformed(where, fmt.Sprintf("shape %s with strides %s at offset %d",
			shapeText(v.shape), shapeText(v.stride), v.offset), want)
	}
	if len(v.shape) != len(v.stride) || len(v.shape) > weights.MaxRank {
		return wrong("one stride per dimension, at most " + strconv.Itoa(weights.MaxRank))
	}
	inside := fmt.Sprintf("a part of the storage's %d elements", v.storage.count)
	n, last := int64(1), v.offset
	for i, d := range v.shape {
		if d < 0 || v.stride[i] < 0 || v.offset < 0 || v.offset > v.storage.count {
			return wrong(inside)
		}
		if d > 1 && int64(v.stride[i]) > v.storage.count/int64(d-1) {
			return wrong(inside)
		}
		if d > 0 && n > v.storage.count/int64(d) {
			return wrong(fmt.Sprintf("no more than the storage's %d elements", v.storage.count))
		}
		n *= int64(d)
		// no overflow: at most (MaxRank+1) * count
		last += int64(max(d-1, 0)) * int64(v.stride[i])
	}
	if n > 0 && (last < 0 || last >= v.storage.count) {
		return wrong(inside)
	}
	return nil
}

// extent returns the number of storage elements from the view's first element to the view's last,
// including gaps.
func (v view) extent() int64 {
	if elements(v.shape) == 0 {
		return 0
	}
	n := int64(1)
	for i, d := range v.shape {
		n += int64(d-1) * int64(v.stride[i])
	}
	return n
}

// checkReads limits the bytes that all tensors together read from the storages. Without the limit,
// many sparse views could read a large storage many times.
func checkReads(tensors []Tensor) error {
	var read, total int64
	seen := map[*storage]bool{}
	for _, t := range tensors {
		s := t.view.storage
		if !seen[s] {
			total += s.count * int64(s.element.size)
			seen[s] = true
		}
		// no overflow: at most weights.MaxTensors * weightsMax
		read += t.view.extent() * int64(s.element.size)
	}
	if read > maxReads*total {
		return tooLarge("tensors", fmt.Sprintf("parts of %d bytes in storages of %d bytes", read,
			total),
			fmt.Sprintf("at most %d times as many", maxReads))
	}
	return nil
}

func (v view) tensor() Tensor {
	return Tensor{DType: v.storage.element.dtype, Shape: v.shape, Load: v.load, view: v}
}

func (v view) load() ([]byte, error) {
	if v.storage.data == nil {
		return nil, malformed("storage "+quote(v.storage.key), "no data in the file",
			"its elements")
	}
	size, n := v.storage.element.size, elements(v.shape)
	if n == 0 {
		return []byte{}, nil
	}
	part := make([]byte, v.extent()*int64(size)) // at most the size of the storage in the file
	if _, err := v.storage.data.ReadAt(part, v.offset*int64(size)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("checkpoint: storage %s: %w", quote(v.storage.key), err)
	}
	if v.contiguous() {
		return part, nil
	}
	return v.gather(make([]byte, 0, n*size), part, 0, 0), nil
}

func (v view) contiguous() bool {
	next := 1
	for i := len(v.shape) - 1; i >= 0; i-- {
		if v.shape[i] != 1 && v.stride[i] != next {
			return false
		}
		next *= v.shape[i]
	}
	return true
}

// gather appends the elements of the dimensions `axis` and later to dst, in row-major order. The
// first of these elements is element `at` of part.
func (v view) gather(dst, part []byte, axis, at int) []byte {
	size := v.storage.element.size
	if axis == len(v.shape) {
		return append(dst, part[at*size:(at+1)*size]...)
	}
	for range v.shape[axis] {
		dst = v.gather(dst, part, axis+1, at)
		at += v.stride[axis]
	}
	return dst
}
