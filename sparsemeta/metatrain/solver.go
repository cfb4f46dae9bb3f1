package metatrain

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

type solver struct {
	adam     *gorgonia.AdamSolver
	weights  []float64
	gradient []float64 // Adam overwrites the gradient in each step
	model    []gorgonia.ValueGrad
}

// vector is a value with its gradient. It implements gorgonia.ValueGrad.
type vector struct{ value, grad gorgonia.Value }

func (v vector) Value() gorgonia.Value         { return v.value }
func (v vector) Grad() (gorgonia.Value, error) { return v.grad, nil }

func newSolver(size int, o Options) *solver {
	s := &solver{weights: make([]float64, size), gradient: make([]float64, size)}
	s.adam = gorgonia.NewAdamSolver(gorgonia.WithBeta1(o.Beta1), gorgonia.WithBeta2(o.Beta2),
		gorgonia.WithEps(o.Eps))
	s.model = []gorgonia.ValueGrad{vector{dense(s.weights), dense(s.gradient)}}
	return s
}

func dense(values []float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(values)), tensor.WithBacking(values))
}

func (s *solver) step(lr float64) error {
	gorgonia.WithLearnRate(lr)(s.adam)
	return s.adam.Step(s.model)
}

// SolverState is the state of the Adam optimizer. Training that restores SolverState and
// Learner.Phi gives the same bits as uninterrupted training.
type SolverState struct {
	Iteration int // number of completed steps
	// Mean is Adam's running mean of the gradient, with one number per weight of all networks.
	// Networks are ordered by bank, then by branch. Mean is nil before the first step.
	Mean     []float64
	Variance []float64 // Adam's running mean of squared gradients, in the order of Mean
}

// State returns a copy of the solver's state.
func (t *Trainer) State() SolverState {
	mean, variance := moments(t.solver.adam)
	return SolverState{
		Iteration: *iteration(t.solver.adam),
		Mean:      append([]float64(nil), mean...),
		Variance:  append([]float64(nil), variance...),
	}
}

// Restore sets the solver's state to s. s must come from State for a learner with the same banks
// and branches. If Restore returns an error, it changes nothing.
func (t *Trainer) Restore(s SolverState) error {
	want := len(t.solver.weights)
	if s.Iteration == 0 {
		want = 0
	}
	if s.Iteration < 0 || len(s.Mean) != want || len(s.Variance) != want {
		return fmt.Errorf("metatrain: solver state: found %d means and %d variances after %d "+
			"steps, want %d of each", len(s.Mean), len(s.Variance), s.Iteration, want)
	}
	for i := range s.Mean {
		if math.IsNaN(s.Mean[i]) || math.IsInf(s.Mean[i], 0) || !(s.Variance[i] >= 0 &&
			s.Variance[i] <= math.MaxFloat64) {
			return fmt.Errorf("metatrain: solver state: weight %d: found mean %v and variance "+
				"%v, want finite numbers and a variance of at least 0", i, s.Mean[i], s.Variance[i])
		}
	}
	*iteration(t.solver.adam) = s.Iteration
	if s.Iteration == 0 {
		setMoments(t.solver.adam, nil, nil)
		return nil
	}
	setMoments(t.solver.adam, append([]float64(nil), s.Mean...), append([]float64(nil),
		s.Variance...))
	return nil
}
