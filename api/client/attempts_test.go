package client

import (
	"context"
	"errors"
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEndedAttemptsNameTheCauseOnce(t *testing.T) {
	cause := errors.New("ended by a signal")
	waiting := func(error, time.Duration) {}
	for want, last := range map[string]func(context.Context) error{
		"ended by a signal": func(ctx context.Context) error {
			return &url.Error{Op: "Post", URL: "http://localhost", Err: context.Cause(ctx)}
		},
		"ended by a signal; the last attempt: unexpected EOF": func(context.Context) error {
			return io.ErrUnexpectedEOF
		},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		err := persist(ctx, waiting, func() (bool, error) {
			end(cause)
			return false, last(ctx)
		})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cause)
	}
}
