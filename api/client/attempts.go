package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// final marks an error after which no further attempt is made.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// persist calls the function attempt until it succeeds, until a retry cannot help, or until the
// context ends. It calls the function `waiting` before each pause. The pauses grow with each
// failure; an attempt that made progress resets them.
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

// ended returns the cause of the context's end. If err has a different cause, the returned error
// also includes err.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(err, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w; the last attempt: %w", cause, err)
}
