package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// The functions here count the memory that states use.

// stateBytes returns the maximum memory that the session's state can use, in bytes.
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

// reserveState reserves memory for a state, and returns the state's model with its weights. If too
// little memory is free, reserveState waits until memory is freed or the context ends. On an error,
// nothing is reserved.
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
