package sparsemeta

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Update applies the gradient of a chunk (eqs. 3 to 6 of the paper). Parameter g is the gradient of
// the chunk's mean loss with respect to the effective weights W + fast. Update sets fast to the new
// fast weights. g and fast have the elements of all branches, end to end. Seed and Step of the
// state determine the masks; Update then increments Step. scale is nil or has a factor on the
// meta-learner's input for every element. Update returns the number of elements written, over all
// banks.
//
// Update allocates nothing. Its result does not depend on the number of threads.
func (s *State) Update(x *Exec, t Tables, set Settings, scale, g, fast []float32) (written int) {
	return s.update(x, t, set, scale, g, fast, nil)
}

// UpdateMasked is Update with given masks. masks has one array for each bank, in which 0 means that
// the element is not written. UpdateMasked ignores set.P.
func (s *State) UpdateMasked(x *Exec, t Tables, set Settings, scale, g, fast []float32,
	masks [][]uint8) (written int) {
	if len(masks) != len(s.M) {
		panic(fmt.Sprintf("sparsemeta: UpdateMasked: found masks for %d banks, want %d", len(masks),
			len(s.M)))
	}
	for bank, mask := range masks {
		if len(mask) != s.Size() {
			panic(fmt.Sprintf("sparsemeta: UpdateMasked: mask %d has %d elements, want %d", bank,
				len(mask), s.Size()))
		}
	}
	return s.update(x, t, set, scale, g, fast, masks)
}

func (s *State) update(x *Exec, t Tables, set Settings, scale, g, fast []float32,
	masks [][]uint8) int {
	s.check("Update", t, g)
	if len(set.Gammas) != len(s.M) || scale != nil && len(scale) != len(g) || len(fast) != len(g) {
		panic(fmt.Sprintf("sparsemeta: Update: found %d gammas, want %d; %d scale factors, want "+
			"0 or %d; %d fast weights, want %d",
			len(set.Gammas), len(s.M), len(scale), len(g), len(fast), len(g)))
	}
	s.job = updateJob{s: s, tables: t, set: set, threshold: maskThreshold(set.P), scale: scale,
		g: g, fast: fast, masks: masks}
	x.Parallel(len(s.spans), &s.job)
	written := s.job.written.Load()
	s.job.drop()
	s.Step++
	return int(written)
}

func (s *State) check(who string, t Tables, g []float32) {
	if len(t) != len(s.M) || len(t[0]) != len(s.branches) || len(g) != s.Size() {
		panic(fmt.Sprintf("sparsemeta: %s: found tables for %d banks of %d branches, and %d "+
			"gradients; want %d, %d and %d",
			who, len(t), len(t[0]), len(g), len(s.M), len(s.branches), s.Size()))
	}
}

// drop clears the references to the caller's slices, so that the garbage collector can free them.
func (j *updateJob) drop() {
	j.s, j.tables, j.set, j.scale, j.g, j.fast, j.masks = nil, nil, Settings{}, nil, nil, nil, nil
}

// Do implements kernel.Task: it updates span i in all banks.
func (j *updateJob) Do(w *Exec, i int) {
	s, sp, written := j.s, j.s.spans[i], 0
	for bank := range s.M {
		written += j.bank(w, bank, sp)
	}
	lo, hi := s.offsets[sp.branch]+sp.lo, s.offsets[sp.branch]+sp.hi
	s.sum(w.Vectors, j.fast[lo:hi], lo)
	j.written.Add(int64(written))
}

func (j *updateJob) bank(w *Exec, bank int, sp span) int {
	s, table := j.s, j.tables[bank][sp.branch]
	lo, hi := s.offsets[sp.branch]+sp.lo, s.offsets[sp.branch]+sp.hi
	a := kernel.Adaptation{
		I: s.I[bank].Range(lo, hi), M: s.M[bank].Range(lo, hi), G: j.g[lo:hi],
		Gamma: j.set.Gammas[bank], Beta1: j.set.Beta1, Beta2: j.set.Beta2, Out: j.set.Out,
		Grid: &table.grid, Beyond: table,
		Key:     kernel.Key(s.Seed, uint64(bank), uint64(sp.branch), s.Step),
		Counter: uint64(sp.lo) / kernel.MaskLanes, Threshold: j.threshold,
	}
	if j.scale != nil {
		a.Scale = j.scale[lo:hi]
	}
	if s.X != nil {
		a.X = s.X[bank][lo:hi]
	}
	if j.masks != nil {
		a.Mask = j.masks[bank][lo:hi]
	}
	return w.Adapt(&a)
}

// maskThreshold returns how many of 65,536 random values lead to a write, if p is the probability
// of a write.
func maskThreshold(p float64) uint32 { return uint32(math.Round(p * kernel.MaskAll)) }
