package train

import "github.com/lmserve/lmserve/sparsemeta"

// stepper is a phase as the loop sees it: pretraining, or one of the two schemes with
// meta-learners.
type stepper interface {
	length() int            // steps in all
	step() (Outcome, error) // one step of the optimizers
	save(*checkpoint)       // everything that the next steps depend on
	load(*checkpoint) error
	trained() []array // views of the weights that the steps move
	// learner is nil in pretraining, which neither trains nor validates meta-learners
	learner() *sparsemeta.Learner
	frozen() bool     // whether the slow weights are frozen
	describe() string // a sentence for people
	close() error     // ends the phase's goroutines
}

// The uses of a run's seed; each has a separate generator.
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
