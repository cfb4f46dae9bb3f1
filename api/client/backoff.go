package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// The pause after the first failed attempt is pauseMin. Each further failure doubles the pause, up
// to pauseMax.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 5 * time.Second
)

type backoff struct{ last time.Duration }

// next doubles the pause, up to pauseMax, and returns a random duration between half and all of the
// new pause. The randomness keeps many clients from retrying at the same moment. If the server's
// Retry-After is longer, next returns that duration.
func (b *backoff) next(err error) time.Duration {
	b.last = min(max(2*b.last, pauseMin), pauseMax)
	pause := b.last/2 + rand.N(b.last/2)
	if e := (*Error)(nil); errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// comesBack reports whether err is a temporary refusal: the server did no work, and a later request
// may succeed.
func comesBack(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusTooManyRequests:
		return e.Type != ProblemKeySessionLimit
	case http.StatusServiceUnavailable:
		return true
	}
	return e.Type == ProblemSessionBusy
}

// passes reports whether a retry may succeed. A retry may succeed after a temporary refusal, a
// failed connection, a proxy's error or an incomplete body.
func passes(err error) bool {
	if comesBack(err) {
		return true
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
			return true
		}
		return e.Type == ProblemBodyIncomplete
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return !errors.As(err, &certificate) && !errors.As(err, &record)
}
