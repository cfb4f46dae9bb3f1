package train

import (
	"errors"
	"fmt"
)

var (
	// ErrInterrupted is wrapped by Run's error when Run's context has ended: a checkpoint was
	// written, and the run can be resumed.
	ErrInterrupted = errors.New("train: interrupted")
	// ErrDiverged says that the loss or a gradient is no finite number, or the loss beyond any text.
	ErrDiverged = errors.New("train: diverged")
)

// InterruptedError says where a run stopped because the context of Run ended.
type InterruptedError struct {
	Phase      string
	Step       int    // optimiser steps made in the phase
	Checkpoint string // where the run was saved; "" if no checkpoint directory was given
	Cause      error  // the context's own error
}

func (e *InterruptedError) Error() string {
	if e.Checkpoint == "" {
		return fmt.Sprintf("train: interrupted in phase %s after step %d; nothing was saved (no checkpoint directory was given)",
			e.Phase, e.Step)
	}
	return fmt.Sprintf("train: interrupted in phase %s after step %d; resume from %s", e.Phase, e.Step, e.Checkpoint)
}

// Unwrap makes the error both ErrInterrupted and the error of the context.
func (e *InterruptedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }
