package txl

import (
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// addFast computes the effective weights W+M, once per segment, for all vectors and all matrices of
// the layers. Of embedding tables, a segment needs only a few rows or clusters. So their sums are
// computed where they are used.
func (s *Segment) addFast(x *Exec) {
	if size := s.sumsSize(); len(s.sums) < size {
		s.sums = kernel.NewLarge(size)
	}
	off := 0
	for i, t := range s.model.Layout.Tensors {
		w, f := s.model.Tensor(i), s.fastOf(i)
		switch {
		case f == nil:
			s.effective[i] = w
		case !t.usedWhole():
			s.effective[i] = nil
		default:
			width := t.Size
			if t.IsMatrix() {
				width = t.Shape[1]
			}
			sum := s.sums[off : off+t.Size]
			s.add(x, sum, w, f, width, 0, t.Size/width)
			s.effective[i] = sum
			off += t.Size
		}
	}
}

func (s *Segment) sumsSize() (n int) {
	for i, t := range s.model.Layout.Tensors {
		if s.fastOf(i) != nil && t.usedWhole() {
			n += t.Size
		}
	}
	return n
}

// usedWhole reports whether every segment needs all elements of the tensor.
func (t Tensor) usedWhole() bool { return !t.IsMatrix() || strings.HasPrefix(t.Name, "layers.") }

// weight returns the effective matrix W+M of tensor i, as a right operand of a product.
func (s *Segment) weight(i int) kernel.Matrix {
	t := s.model.Layout.Tensors[i]
	if sum := s.effective[i]; sum != nil {
		return kernel.Mat(sum, t.Shape[0], t.Shape[1])
	}
	w := kernel.Mat(s.model.Tensor(i), t.Shape[0], t.Shape[1])
	w.Add = s.fastOf(i)
	return w
}
