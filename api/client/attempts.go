package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// final is an error after which no attempt follows.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// persist makes attempts until one succeeds, or fails for good, or the context ends. The pauses
// begin anew when an attempt has brought something forward. waiting is told of each.
func persist(
	ctx context.Context, waiting func(cause error, pause time.Duration),
	attempt func() (forward bool, err error),
) error {
	for pause := (backoff{}); ; {
		forward, err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		var last final
		if errors.As(err, &last) || !passes(err) {
			return err
		}
		if forward {
			pause = backoff{}
		}
		wait := pause.next(err)
		waiting(err, wait)
		if errWait := sleep(ctx, wait); errWait != nil {
			return fmt.Errorf("%w; the last attempt: %w", errWait, err)
		}
	}
}

// ended says why the context ended, and what the last attempt came to if that was something else.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(err, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w; the last attempt: %w", cause, err)
}
