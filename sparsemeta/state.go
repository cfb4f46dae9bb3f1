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

// State is the part of a session that lives in the branches: gradient averages and
// fast weights. The exported fields are all of it; a state made by NewState with the
// same branches, banks and precision and filled with them goes on to the same bits.
// Arenas hold the branches one after the other. One goroutine uses it at a time.
type State struct {
	Seed uint64  // of the masks
	Step uint64  // updates made: the masks' time
	I    []Array // [bank] arenas, eq. 3
	M    []Array // [bank] arenas, eq. 6

	// X, if not nil (see Trace), is the input of g at each element's last write,
	// [bank] arenas, NaN = never written since the last Reset.
	X [][]float32

	branches []Branch
	offsets  []int // of the branches in an arena, and its length
	spans    []span
	job      updateJob
	scatter  scatterJob
}

// updateJob is an update under way. Its tasks are the state's spans, every bank of a
// span by the same thread.
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

// scatterJob is a NodeGradient under way; a task is one branch of one bank.
type scatterJob struct {
	s      *State
	tables Tables
	out    float64
	g      []float32
	every  int
	dv     NodeGradients
}

// span is the unit of work: a run of elements of one branch. Runs begin at
// multiples of spanSize in their branch.
type span struct{ branch, lo, hi int }

// spanSize is a multiple of the mask lanes of a random word. The slices of G, I, M and
// of the fast weights that a span touches fit the second-level cache beside a table's
// used part.
const spanSize = 2048

// cut gives the offsets of the branches in an arena, its length after them, and the spans.
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

// NewState is the state before the first chunk: I and M are zero. They are held in
// Float32, or in half the memory in BF16.
func NewState(branches []Branch, banks int, seed uint64, held Precision) *State {
	s := &State{Seed: seed, branches: branches, I: make([]Array, banks), M: make([]Array, banks)}
	s.offsets, s.spans = cut(branches)
	for bank := range banks {
		s.I[bank] = kernel.NewArray(s.Size(), held)
		s.M[bank] = kernel.NewArray(s.Size(), held)
	}
	return s
}

// Size is the number of elements of an arena.
func (s *State) Size() int { return s.offsets[len(s.branches)] }

// Trace makes the following updates remember the inputs of g, which NodeGradient
// needs. Elements written before count as never written.
func (s *State) Trace() {
	s.X = make([][]float32, len(s.M))
	for bank := range s.X {
		s.X[bank] = make([]float32, s.Size())
		fill(s.X[bank], float32(math.NaN()))
	}
}

// Reset puts I and M back to zero. Seed and Step stay, so that masks do not repeat.
func (s *State) Reset() {
	for bank := range s.M {
		s.I[bank].Clear()
		s.M[bank].Clear()
	}
	for _, x := range s.X {
		fill(x, float32(math.NaN()))
	}
}

// CopyFrom makes s equal to from, which has the same branches, banks, precision and tracing.
func (s *State) CopyFrom(from *State) {
	if len(s.M) != len(from.M) || s.Size() != from.Size() || len(s.X) != len(from.X) {
		panic(fmt.Sprintf("sparsemeta: CopyFrom: %d banks (%d traced) of %d elements from %d "+
			"(%d) of %d",
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

// sumBlock is how many elements are added up at once: they stay in the first-level
// cache, and are few enough for a sum of squares in float32.
const sumBlock = 4096

// Sum sets the arena fast to the fast weights, the sum of the banks' M, to the bits that Update
// leaves in its arena fast.
func (s *State) Sum(v Vectors, fast []float32) {
	if len(fast) != s.Size() {
		panic(fmt.Sprintf("sparsemeta: Sum: %d elements, want %d", len(fast), s.Size()))
	}
	for lo := 0; lo < len(fast); lo += sumBlock {
		s.sum(v, fast[lo:min(lo+sumBlock, len(fast))], lo)
	}
}

// sum computes the fast weights of the elements from lo on.
func (s *State) sum(v Vectors, fast []float32, lo int) { addUp(v, fast, s.M, lo) }

// addUp adds up the elements of arrays from lo on.
func addUp(v Vectors, sum []float32, arrays []Array, lo int) {
	for i, a := range arrays {
		if a = a.Range(lo, lo+len(sum)); i == 0 {
			v.Load(sum, a)
		} else {
			v.AddTo(sum, a)
		}
	}
}

// RMS is the root mean square of the fast weights.
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

// Branch is the part of an arena that belongs to branch i.
func (s *State) Branch(arena []float32, i int) []float32 {
	return arena[s.offsets[i]:s.offsets[i+1]]
}

// Bytes is the memory that the arenas take.
func (s *State) Bytes() (n int64) {
	for bank := range s.M {
		n += s.I[bank].Bytes() + s.M[bank].Bytes()
	}
	return n + 4*int64(len(s.X)*s.Size())
}

// Hash is the SHA-256 of the state's bits, in hexadecimal: equal states, equal hashes.
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
