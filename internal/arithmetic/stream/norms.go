package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
)

// BranchNorm holds the norms of a branch's fast weights after an update, and of their change by the
// update.
type BranchNorm struct {
	Name            string
	Size            int
	sparsemeta.Norm // norms of the fast weights, summed over the banks
	// Banks has the norms of each bank. Banks is nil for a method without banks.
	Banks []sparsemeta.Norm
}

// SettleMeasured is like Settle, and also returns the norms of each branch's fast weights after the
// chunk's update. The norms are nil if the chunk is not full or the stream has no fast weights. The
// number of threads does not affect the norms.
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

func (s *Stream) branches() []sparsemeta.Branch {
	if s.Fast != nil {
		return s.model.Learner.Branches
	}
	return model.Weights(s.model.LM.Layout)
}
