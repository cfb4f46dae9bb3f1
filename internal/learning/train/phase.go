package train

import "github.com/lmserve/lmserve/sparsemeta"

// stepper is a phase for the training loop: pretraining, or one of the two schemes with
// meta-learners.
type stepper interface {
	length() int
	step() (Outcome, error)
	save(*checkpoint)
	load(*checkpoint) error
	trained() []array // the weights that the steps change, not copies
	// learner returns nil in pretraining, which has no meta-learners.
	learner() *sparsemeta.Learner
	frozen() bool
	describe() string
	close() error // ends the phase's goroutines
}

// Each use of a run's seed has a separate random generator.
const (
	useWeights = iota + 1
	useOrder
	useDropout
	usePieces
	useReset
	useMasks
	useLearner
	useValidation
	useKeepBack
	useJoint
)
