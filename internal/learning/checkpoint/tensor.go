package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/lmserve/lmserve/weights"
)

// Tensor is one named array of a checkpoint, whose data is read in place.
type Tensor struct {
	Name  string
	DType weights.DType // "" for a type that weights cannot have, such as bool
	Shape []int
	// Load reads the data: row-major, little endian, without gaps.
	Load func() ([]byte, error)
	view view // zero for tensors of safetensors
}

// elements returns the product of the shape.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// sameData reports whether two tensors have the same bytes. It reads them only if they are not the
// same part of one storage, as tied weights are.
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
	class string // class of the storage, such as FloatStorage
	size  int
	dtype weights.DType // "" if weights cannot have this type
}

// elementTypes are the types of storages that torch.save writes.
var elementTypes = []element{
	{"FloatStorage", 4, weights.F32}, {"HalfStorage", 2, weights.F16},
	{"BFloat16Storage", 2, weights.BF16}, {"DoubleStorage", 8, weights.F64},
	{"LongStorage", 8, weights.I64}, {"IntStorage", 4, weights.I32}, {"ShortStorage", 2, ""},
	{"ByteStorage", 1, weights.U8}, {"CharStorage", 1, ""}, {"BoolStorage", 1, ""},
}

// storage is an array of elements in the file. Several tensors may be views of one.
type storage struct {
	key     string
	element element
	count   int64       // elements
	data    io.ReaderAt // nil until the storage is found in the file
}

// view is the part of a storage that a tensor shows: element (i, j, ...) of the tensor is element
// offset + i*stride[0] + j*stride[1] + ... of the storage.
type view struct {
	storage       *storage
	offset        int64
	shape, stride []int
}

func (v view) equal(w view) bool {
	return v.storage == w.storage && v.offset == w.offset &&
		fmt.Sprint(v.shape, v.stride) == fmt.Sprint(w.shape, w.stride)
}

// check returns an error unless every element of the view is in the storage. The view must have at
// most as many elements as the storage, because a view that repeats elements could have any size.
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
		last += int64(max(d-1, 0)) * int64(v.stride[i]) // at most (MaxRank+1) * count
	}
	if n > 0 && (last < 0 || last >= v.storage.count) {
		return wrong(inside)
	}
	return nil
}

// extent returns the number of elements of the storage from the view's first to its last.
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

// checkReads returns an error if the tensors together read the storages too often, as many sparse
// views of a large storage would.
func checkReads(tensors []Tensor) error {
	var read, total int64
	seen := map[*storage]bool{}
	for _, t := range tensors {
		s := t.view.storage
		if !seen[s] {
			total += s.count * int64(s.element.size)
			seen[s] = true
		}
		read += t.view.extent() * int64(s.element.size) // at most weights.MaxTensors * weightsMax
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

// load reads the elements in the order of the shape.
func (v view) load() ([]byte, error) {
	if v.storage.data == nil {
		return nil, malformed("storage "+quote(v.storage.key), "no data in the file",
			"its elements")
	}
	size, n := v.storage.element.size, elements(v.shape)
	if n == 0 {
		return []byte{}, nil
	}
	part := make([]byte, v.extent()*int64(size)) // no larger than the storage in the file
	if _, err := v.storage.data.ReadAt(part, v.offset*int64(size)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("checkpoint: storage %s: %w", quote(v.storage.key), err)
	}
	if v.contiguous() {
		return part, nil
	}
	return v.gather(make([]byte, 0, n*size), part, 0, 0), nil
}

// contiguous reports whether the elements are consecutive.
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

// gather appends elements from part to dst: those of the dimensions from axis to the last. The
// first element has the index `at`.
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
