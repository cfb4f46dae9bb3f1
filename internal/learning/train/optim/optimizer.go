// Package optim moves the weights of a network against their gradients: Adam and Muon, the
// gradient's norm and mean, and the schedules of the learning rate. It knows arrays of weights
// and a layout that names them, not what they compute.
//
// The results do not depend on the number of threads, and an optimiser whose moments and number
// of steps have been restored goes on to the same bits.
package optim

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Optimizer moves all weights at once.
type Optimizer interface {
	// Step moves the weights w against the gradient g with a learning rate, and returns the norm
	// of the whole gradient, before clipping. If the norm is not a finite number, Step changes
	// nothing and the caller must give up.
	Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64)
	// Moments are all that the optimiser remembers but the number of its steps.
	Moments() []Moment
	// SetSteps sets the number of steps that the optimiser has made.
	SetSteps(n int)
}

// Moment is an array that an optimiser keeps from step to step. The name is that in checkpoints.
type Moment struct {
	Name   string
	Values []float32
}

// Finite tells a number from infinities and NaN.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
