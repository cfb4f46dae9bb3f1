package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
)

// BranchNorm tells how large the fast weights of a branch are after an update, and how far the
// update has moved them.
type BranchNorm struct {
	Name            string // of the weight
	Size            int    // elements
	sparsemeta.Norm        // of the fast weights: of the banks added up
	// Banks are those of each bank alone; nil of a method that has no banks.
	Banks []sparsemeta.Norm
}

// SettleMeasured is Settle, and measures the fast weights that the chunk's update has written, a
// branch after the other. The norms are nil if the chunk is not full, and of a stream that has no
// fast weights. They are the same for any number of threads.
func (w *Worker) SettleMeasured(s *Stream) (Settled, []BranchNorm) {
	if s.Room() > 0 || s.frozen || s.Fast == nil && s.Dynamic == nil {
		return w.Settle(s), nil
	}
	if s.Fast != nil {
		w.before.Keep(s.Fast)
	} else {
		w.before.KeepDynamic(s.Dynamic)
	}
	settled := w.Settle(s)
	return settled, w.norms(s)
}

// norms measures what an update has changed of the fast weights in w.before.
func (w *Worker) norms(s *Stream) []BranchNorm {
	branches := s.branches()
	norms := make([]BranchNorm, len(branches))
	for i, b := range branches {
		n := BranchNorm{Name: b.Name, Size: b.Size}
		if s.Fast != nil {
			n.Banks = make([]sparsemeta.Norm, len(s.Fast.M))
			n.Norm = s.Fast.Norms(w.Exec.Vectors, &w.before, i, n.Banks)
		} else {
			n.Norm = s.Dynamic.Norm(w.Exec.Vectors, &w.before, i)
		}
		norms[i] = n
	}
	return norms
}

// branches are the weights that the stream's method moves.
func (s *Stream) branches() []sparsemeta.Branch {
	if s.Fast != nil {
		return s.model.Learner.Branches
	}
	return model.Weights(s.model.LM.Layout)
}
