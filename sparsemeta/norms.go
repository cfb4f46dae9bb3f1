package sparsemeta

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Norm has the norms of a branch's fast weights and of their change in an update.
type Norm struct {
	M      float64 // Frobenius norm of the fast weights after the update
	Change float64 // Frobenius norm of the change
}

// Before holds a copy of the fast weights before an update, to measure how much the update changes
// them. The zero value is empty.
type Before struct{ banks []Array }

// Keep copies the fast weights of s.
func (b *Before) Keep(s *State) { b.keep(s.M...) }

// KeepDynamic copies the fast weights of d, the state of dynamic evaluation.
func (b *Before) KeepDynamic(d *Dynamic) { b.keep(Array{F32: d.M}) }

func (b *Before) keep(banks ...Array) {
	if len(b.banks) != len(banks) {
		b.banks = make([]Array, len(banks))
	}
	for i, m := range banks {
		if held := b.banks[i]; len(held.F32) != len(m.F32) || len(held.BF16) != len(m.BF16) {
			b.banks[i] = Array{}
			b.banks[i] = kernel.NewArray(m.Len(), precisionOf(m))
		}
		b.banks[i].CopyFrom(m)
	}
}

func precisionOf(a Array) Precision {
	if a.BF16 != nil {
		return BF16
	}
	return Float32
}

// Norms returns the norms of branch i's fast weights, which are the sum over the banks. If banks is
// not nil, Norms also sets banks[k] to the norms of bank k. before must be a copy from the same
// state. Norms uses one thread.
func (s *State) Norms(v Vectors, before *Before, i int, banks []Norm) Norm {
	lo, hi := s.offsets[i], s.offsets[i+1]
	for bank := range banks {
		banks[bank] = norm(v, s.M[bank:bank+1], before.banks[bank:bank+1], lo, hi)
	}
	return norm(v, s.M, before.banks, lo, hi)
}

// Norm returns the norms of branch i's fast weights, like State.Norms.
func (d *Dynamic) Norm(v Vectors, before *Before, i int) Norm {
	return norm(v, []Array{{F32: d.M}}, before.banks, d.offsets[i], d.offsets[i+1])
}

func norm(v Vectors, now, before []Array, lo, hi int) Norm {
	var is, was [sumBlock]float32
	var m, change float64
	for ; lo < hi; lo += sumBlock {
		end := min(lo+sumBlock, hi)
		x, y := is[:end-lo], was[:end-lo]
		addUp(v, x, now, lo)
		addUp(v, y, before, lo)
		m += float64(v.Dot(x, x))
		v.Axpy(x, -1, y)
		change += float64(v.Dot(x, x))
	}
	return Norm{M: math.Sqrt(m), Change: math.Sqrt(change)}
}
