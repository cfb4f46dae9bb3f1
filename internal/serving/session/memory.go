package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// This file accounts the memory of states.

// stateBytes returns the most memory that the session's state uses.
func (h *head) stateBytes(m *model.Model) int64 {
	bytes := stream.StateBytes(m, h.Settings)
	if h.LinesFrom != nil {
		bytes += stream.LinesBytes
	}
	if h.ByLine {
		bytes += stream.HeldBytes(m, h.Settings)
	}
	return bytes
}

// reserveState reserves memory for a state of a model, and returns the model with its weights. It
// waits while all sessions with states that could be dropped are at work; the context ends the
// wait. On an error nothing is reserved.
func reserveState(
	ctx context.Context, account *budget.Account[*session], of *servedModel, need int64,
) (m *model.Model, err error) {
	if err := account.Wait(ctx, need); err != nil {
		return nil, memoryError(err)
	}
	if m, err = of.weights(ctx); err != nil {
		account.Release()
	}
	return m, err
}

// memoryError converts an error of the memory budget to that of a request.
func memoryError(err error) error {
	var full *budget.FullError
	switch {
	case errors.As(err, &full):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, budget.ErrClosed):
		return ErrNotFound
	}
	return err
}
