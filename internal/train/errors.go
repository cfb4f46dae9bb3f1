package train

import (
	"errors"
	"fmt"
)

var (
	// ErrInterrupted is wrapped by Run's error when Run's context has ended: a checkpoint was
	// written, and the run can be resumed.
	ErrInterrupted = errors.New("train: interrupted")
	// ErrDiverged says that the loss or a gradient is no longer a finite number.
	ErrDiverged = errors.New("train: diverged")
	// ErrCheckpoint is wrapped by every error about a checkpoint's contents.
	ErrCheckpoint = errors.New("train: checkpoint")
)

// OptionError says that one field of Options has a value that cannot be used.
type OptionError struct {
	Field string // e.g. "Pretrain.Batch"
	Found string
	Want  string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("train: option %s is %s, expected %s", e.Field, e.Found, e.Want)
}

// MismatchError says that a checkpoint belongs to a run with other settings.
type MismatchError struct {
	Path  string // the checkpoint
	Field string // the JSON path of the first field that differs, e.g. "model.d_model"
	Have  string // in the checkpoint
	Want  string // in this run
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("train: checkpoint %s is of another run: %s is %s there and %s here",
		e.Path, e.Field, e.Have, e.Want)
}

// InterruptedError says where a run stopped because the context of Run ended.
type InterruptedError struct {
	Phase      string
	Step       int    // optimiser steps of the phase that were made
	Checkpoint string // where the run was saved; "" if no checkpoint directory was given
	Cause      error  // of the context
}

func (e *InterruptedError) Error() string {
	if e.Checkpoint == "" {
		return fmt.Sprintf("train: interrupted in phase %s after step %d; nothing was saved (no checkpoint directory was given)",
			e.Phase, e.Step)
	}
	return fmt.Sprintf("train: interrupted in phase %s after step %d; resume from %s", e.Phase, e.Step, e.Checkpoint)
}

// Unwrap makes the error both ErrInterrupted and the context's own.
func (e *InterruptedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }
