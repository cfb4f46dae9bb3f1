package sparsemeta

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// State is the part of a session that lives in the branches: gradient averages and
// fast weights. The exported fields are all of it; a state made by NewState with the
// same branches and banks and filled with them goes on to the same bits. Arenas hold
// the branches one after the other. One goroutine uses it at a time.
type State struct {
	Seed uint64      // of the masks
	Step uint64      // updates made: the masks' time
	I    [][]float32 // [bank] arenas, eq. 3
	M    [][]float32 // [bank] arenas, eq. 6
	Sum  []float32   // the fast weights: the banks' M added up; M[0] itself if there is one bank

	// X, if not nil (see Trace), is the input of g at each element's last write,
	// [bank] arenas, NaN = never written since the last Reset.
	X [][]float32

	branches []Branch
	offsets  []int // of the branches in an arena, and its length
	spans    []span
	job      updateJob
	scatter  scatterJob
}

// span is the unit of work: a run of elements of one branch. Runs begin at
// multiples of spanSize in their branch.
type span struct{ branch, lo, hi int }

// spanSize is a multiple of the mask lanes of a random word. The slices of G, I, M and
// Sum that a span touches fit the second-level cache beside a table's used part.
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

// NewState is the state before the first chunk: I and M are zero.
func NewState(branches []Branch, banks int, seed uint64) *State {
	s := &State{Seed: seed, branches: branches, I: make([][]float32, banks), M: make([][]float32, banks)}
	s.offsets, s.spans = cut(branches)
	size := s.offsets[len(branches)]
	for bank := range banks {
		s.I[bank] = make([]float32, size)
		s.M[bank] = make([]float32, size)
	}
	s.Sum = s.M[0]
	if banks > 1 {
		s.Sum = make([]float32, size)
	}
	return s
}

// Trace makes the following updates remember the inputs of g, which NodeGradient
// needs. Elements written before count as never written.
func (s *State) Trace() {
	s.X = make([][]float32, len(s.M))
	for bank := range s.X {
		s.X[bank] = make([]float32, len(s.M[bank]))
		fill(s.X[bank], float32(math.NaN()))
	}
}

// Reset puts I and M back to zero. Seed and Step stay, so that masks do not repeat.
func (s *State) Reset() {
	for bank := range s.M {
		clear(s.I[bank])
		clear(s.M[bank])
	}
	clear(s.Sum)
	for _, x := range s.X {
		fill(x, float32(math.NaN()))
	}
}

// CopyFrom makes s equal to from, which has the same branches, banks and tracing.
func (s *State) CopyFrom(from *State) {
	if len(s.M) != len(from.M) || len(s.Sum) != len(from.Sum) || len(s.X) != len(from.X) {
		panic(fmt.Sprintf("sparsemeta: CopyFrom: %d banks (%d traced) of %d elements from %d (%d) of %d",
			len(s.M), len(s.X), len(s.Sum), len(from.M), len(from.X), len(from.Sum)))
	}
	s.Seed, s.Step = from.Seed, from.Step
	for bank := range s.M {
		copy(s.I[bank], from.I[bank])
		copy(s.M[bank], from.M[bank])
	}
	copy(s.Sum, from.Sum)
	for bank := range s.X {
		copy(s.X[bank], from.X[bank])
	}
}

// AddUp makes Sum from M, to the bits that updates leave there.
func (s *State) AddUp() {
	if len(s.M) == 1 {
		return // Sum is M
	}
	copy(s.Sum, s.M[0])
	for _, m := range s.M[1:] {
		kernel.Axpy(s.Sum, 1, m)
	}
}

// Branch is the part of an arena that belongs to branch i.
func (s *State) Branch(arena []float32, i int) []float32 {
	return arena[s.offsets[i]:s.offsets[i+1]]
}

// Bytes is the memory that the arenas take.
func (s *State) Bytes() int64 {
	arenas := 2*len(s.M) + len(s.X)
	if len(s.M) > 1 {
		arenas++
	}
	return 4 * int64(arenas) * int64(len(s.Sum))
}

// Hash is the SHA-256 of the state's bits, in hexadecimal: equal states, equal hashes.
func (s *State) Hash() string {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, s.Seed))
	h.Write(binary.LittleEndian.AppendUint64(nil, s.Step))
	for _, arenas := range [][][]float32{s.I, s.M, {s.Sum}, s.X} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(arenas))))
		for _, arena := range arenas {
			hashFloats(h, arena)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

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

func fill(values []float32, v float32) {
	for i := range values {
		values[i] = v
	}
}
