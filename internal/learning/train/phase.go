package train

import "github.com/lmserve/lmserve/sparsemeta"

// stepper is what the loop knows of pretraining and of the two schemes with meta-learners.
type stepper interface {
	length() int            // steps in all
	step() (Outcome, error) // one step of the optimisers
	save(*checkpoint)       // everything that the next steps depend on
	load(*checkpoint) error
	trained() []array             // views of the weights that the steps move
	learner() *sparsemeta.Learner // nil in pretraining, which trains none and is validated without
	frozen() bool                 // whether the slow weights stand still
	describe() string             // a sentence for a person
	close() error                 // ends what the phase has running
}

// What the seed of a run is used for: each has a generator of its own.
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
