package txl

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test includes paths longer than the segment, and a segment from NewBeside.
func TestRowsOfATreeAreThoseOfTheirPaths(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 7)
			others := make(Fast, len(fast))
			copy(others, fast)
			_, far := randomModel(t, c, 8)
			for i, tensor := range m.Layout.Tensors {
				if tensor.Name > "layers.1" {
					others[i] = far[i]
				}
			}
			x := newExec(t, 2)
			rng := rand.New(rand.NewPCG(3, uint64(len(name))))
			for _, segments := range []int{0, 1, 3} {
				treeAsPaths(t, x, m, [2]Fast{fast, others}, segments, rng)
			}
		})
	}
}

// treeAsPaths grows a tree after the given number of segments and some more rows. Each call of Grow
// computes two rows. Each row must equal the result of a segment that reads the row's path.
func treeAsPaths(
	t *testing.T, x *Exec, m *Model, fast [2]Fast, segments int, rng *rand.Rand,
) {
	c, n := m.Config, rng.IntN(m.Config.SegLen)
	ids := randomTokens(segments*c.SegLen+n, c.Vocab, uint64(n))
	mems := [2]*Memory{NewMemory(c, 1), NewMemory(c, 1)}
	// read extends both segments by ids; Begin must have been called before
	read := func(segs [2]*Segment, ids []int32) {
		for len(ids) > 0 {
			k := min(len(ids), c.SegLen-segs[0].Len())
			for _, s := range segs {
				s.Extend(x, ids[:k])
			}
			ids = ids[k:]
			if len(ids) > 0 {
				segs[0].Continue(x)
				segs[1].Continue(x)
			}
		}
	}
	begin := func() (segs [2]*Segment) {
		segs[0] = NewSegment(c, 1, c.SegLen)
		segs[1] = NewBeside(segs[0])
		for i, s := range segs {
			s.Begin(x, m, fast[i], mems[i])
		}
		return segs
	}
	segs := begin()
	read(segs, ids)

	growers := [2]*Grower{NewGrower(segs[0], 2)}
	growers[1] = NewGrowerBeside(growers[0])
	var trees [2]Tree
	paths := map[int32][]int32{NoRow: nil}
	got, want := make([]float32, c.Vocab), make([]float32, c.Vocab)
	rows := rng.Perm(3*c.SegLen + 5)
	if len(rows)%2 > 0 {
		rows = rows[1:]
	}
	newest := int32(NoRow)
	for at := 0; at < len(rows); at += 2 {
		call := [2]int32{int32(rows[at]), int32(rows[at+1])}
		parents := [2]int32{newest, call[0]}
		if at%4 > 0 {
			parents = [2]int32{newest, newest}
		}
		if newest = call[1]; rng.IntN(4) > 0 {
			newest = call[0]
		}
		tokens := randomTokens(2, c.Vocab, rng.Uint64())
		for i := range growers {
			growers[i].Begin(segs[i], segs[i].Len())
			growers[i].Grow(x, &trees[i], call[:], parents[:], tokens)
		}
		for k, row := range call {
			path := append(append([]int32(nil), paths[parents[k]]...), tokens[k])
			paths[row] = path
			along := begin()
			read(along, append(append([]int32(nil), ids...), path...))
			for i := range growers {
				growers[i].LogProbs(k, got)
				along[i].LogProbs(along[i].Len()-1, 0, want)
				for v := range want {
					require.InDelta(t, want[v], got[v], 5e-5, "a path of %d behind %d", len(path),
						len(ids))
				}
			}
		}
	}
}
