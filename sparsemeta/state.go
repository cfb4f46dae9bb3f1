package sparsemeta

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// State contains the gradient averages and fast weights of one session. The exported fields are the
// whole state. A NewState with the same branches, banks and precision, and with copies of these
// fields, computes the same bits in later updates. An arena is an array of the elements of all
// branches, end to end. Only one goroutine may use a State at a time.
type State struct {
	Seed uint64  // seed of the random masks
	Step uint64  // number of updates made; the masks depend on Step
	I    []Array // gradient averages of eq. 3: one arena for each bank
	M    []Array // fast weights of eq. 6: one arena for each bank

	// X is nil unless Trace was called. It has one arena for each bank, with the input of g at the
	// last write of each element. NaN means that no update has written the element since the last
	// Reset or Trace.
	X [][]float32

	branches []Branch
	offsets  []int // offset of each branch in an arena, followed by the arena's length
	spans    []span
	job      updateJob
	scatter  scatterJob
}

// updateJob is a running update. A task is one span of the state, in all banks.
type updateJob struct {
	s         *State
	tables    Tables
	set       Settings
	threshold uint32
	scale, g  []float32
	fast      []float32
	masks     [][]uint8
	written   atomic.Int64
}

type scatterJob struct {
	s      *State
	tables Tables
	out    float64
	g      []float32
	every  int
	dv     NodeGradients
}

// span is a task of an update: elements lo to hi-1 of one branch. lo is a multiple of spanSize.
type span struct{ branch, lo, hi int }

// spanSize is the maximum number of elements of a span. It is a multiple of the number of mask
// elements in a random word. A span's data and the used part of a table fit the second-level cache.
const spanSize = 2048

// cut returns the spans and the offset of each branch in an arena. The last element of offsets is
// the arena's length.
func cut(branches []Branch) (offsets []int, spans []span) {
	size := 0
	for i, b := range branches {
		offsets = append(offsets, size)
		for lo := 0; lo < b.Size; lo += spanSize {
			spans = append(spans, span{i, lo, min(lo+spanSize, b.Size)})
		}
		size += b.Size
	}
	return append(offsets, size), spans
}

// NewState returns the state before the first update: I and M are zero. held is their precision;
// BF16 needs half the memory of Float32.
func NewState(branches []Branch, banks int, seed uint64, held Precision) *State {
	s := &State{Seed: seed, branches: branches, I: make([]Array, banks), M: make([]Array, banks)}
	s.offsets, s.spans = cut(branches)
	for bank := range banks {
		s.I[bank] = kernel.NewArray(s.Size(), held)
		s.M[bank] = kernel.NewArray(s.Size(), held)
	}
	return s
}

// Size returns the number of elements of all branches together.
func (s *State) Size() int { return s.offsets[len(s.branches)] }

// Trace makes later updates record the inputs of g in X, because NodeGradient needs these inputs.
// It marks all elements as not yet written.
func (s *State) Trace() {
	s.X = make([][]float32, len(s.M))
	for bank := range s.X {
		s.X[bank] = make([]float32, s.Size())
		fill(s.X[bank], float32(math.NaN()))
	}
}

// Reset sets I and M to zero. It keeps Seed and Step, so that masks do not repeat.
func (s *State) Reset() {
	for bank := range s.M {
		s.I[bank].Clear()
		s.M[bank].Clear()
	}
	for _, x := range s.X {
		fill(x, float32(math.NaN()))
	}
}

// CopyFrom sets s to a copy of parameter `from`. Both states must have the same branches, banks,
// precision and tracing.
func (s *State) CopyFrom(from *State) {
	if len(s.M) != len(from.M) || s.Size() != from.Size() || len(s.X) != len(from.X) {
		panic(fmt.Sprintf("sparsemeta: CopyFrom: the target has %d banks (%d traced) of %d "+
			"elements, the source %d (%d traced) of %d",
			len(s.M), len(s.X), s.Size(), len(from.M), len(from.X), from.Size()))
	}
	s.Seed, s.Step = from.Seed, from.Step
	for bank := range s.M {
		s.I[bank].CopyFrom(from.I[bank])
		s.M[bank].CopyFrom(from.M[bank])
	}
	for bank := range s.X {
		copy(s.X[bank], from.X[bank])
	}
}

// sumBlock is the number of elements that are summed at once. A block fits the first-level cache,
// and is small enough for an accurate sum of squares in float32.
const sumBlock = 4096

// Sum sets fast to the fast weights: the sum of M over the banks. Update computes the same bits.
func (s *State) Sum(v Vectors, fast []float32) {
	if len(fast) != s.Size() {
		panic(fmt.Sprintf("sparsemeta: Sum: found %d elements, want %d", len(fast), s.Size()))
	}
	for lo := 0; lo < len(fast); lo += sumBlock {
		s.sum(v, fast[lo:min(lo+sumBlock, len(fast))], lo)
	}
}

func (s *State) sum(v Vectors, fast []float32, lo int) { addUp(v, fast, s.M, lo) }

func addUp(v Vectors, sum []float32, arrays []Array, lo int) {
	for i, a := range arrays {
		if a = a.Range(lo, lo+len(sum)); i == 0 {
			v.Load(sum, a)
		} else {
			v.AddTo(sum, a)
		}
	}
}

// RMS returns the root mean square of the fast weights.
func (s *State) RMS(v Vectors) float64 {
	var fast [sumBlock]float32
	var sum float64
	for lo := 0; lo < s.Size(); lo += sumBlock {
		block := fast[:min(sumBlock, s.Size()-lo)]
		s.sum(v, block, lo)
		sum += float64(v.Dot(block, block))
	}
	return math.Sqrt(sum / float64(s.Size()))
}

// Branch returns the part of an arena that belongs to branch i.
func (s *State) Branch(arena []float32, i int) []float32 {
	return arena[s.offsets[i]:s.offsets[i+1]]
}

// Bytes returns the memory of I, M and X in bytes.
func (s *State) Bytes() (n int64) {
	for bank := range s.M {
		n += s.I[bank].Bytes() + s.M[bank].Bytes()
	}
	return n + 4*int64(len(s.X)*s.Size())
}

// Hash returns the SHA-256 of the state's bits, in hexadecimal. Equal states have equal hashes.
func (s *State) Hash() string {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, s.Seed))
	h.Write(binary.LittleEndian.AppendUint64(nil, s.Step))
	for _, arenas := range [][]Array{s.I, s.M} {
		hashLength(h, len(arenas))
		for _, arena := range arenas {
			hashFloats(h, arena.F32)
			hashHalves(h, arena.BF16)
		}
	}
	hashLength(h, len(s.X))
	for _, arena := range s.X {
		hashFloats(h, arena)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashLength(h hash.Hash, n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

func hashFloats(h hash.Hash, values []float32) {
	const batch = 1024
	var bytes [4 * batch]byte
	for len(values) > 0 {
		n := min(batch, len(values))
		for i, v := range values[:n] {
			binary.LittleEndian.PutUint32(bytes[4*i:], math.Float32bits(v))
		}
		h.Write(bytes[:4*n])
		values = values[n:]
	}
}

func hashHalves(h hash.Hash, values []uint16) {
	const batch = 1024
	var bytes [2 * batch]byte
	for len(values) > 0 {
		n := min(batch, len(values))
		for i, v := range values[:n] {
			binary.LittleEndian.PutUint16(bytes[2*i:], v)
		}
		h.Write(bytes[:2*n])
		values = values[n:]
	}
}

func fill(values []float32, v float32) {
	for i := range values {
		values[i] = v
	}
}
