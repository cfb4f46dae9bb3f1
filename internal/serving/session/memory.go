package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// This file is what states take of the memory.

// stateBytes is the memory that the session's state takes, at most.
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

// reserveState takes memory for a state of a model, and gives the model with its weights. It waits
// while all sessions that could give up their states are at work; the context ends the wait. The
// account has nothing if that fails.
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

// memoryError is the error of a request that got no memory.
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
