package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// final is an error that rules out further attempts.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// persist repeats attempts until one succeeds, fails for good, or the context ends. After an
// attempt that made progress, the next pause is the shortest again. waiting is called before each
// pause.
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

// ended returns the cause of the context's end. If the last attempt failed for another reason, the
// returned error has that reason, too.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(err, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w; the last attempt: %w", cause, err)
}
