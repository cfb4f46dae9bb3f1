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

// backoff computes the growing pauses between attempts. Its zero value is ready to use.
type backoff struct{ last time.Duration }

// next doubles the pause, and returns a random duration between half of the new pause and the
// whole. The randomness keeps many clients from returning at once. If the server's Retry-After is
// longer, next returns that duration.
func (b *backoff) next(err error) time.Duration {
	b.last = min(max(2*b.last, pauseMin), pauseMax)
	pause := b.last/2 + rand.N(b.last/2)
	if e := (*Error)(nil); errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

// sleep waits for d. If the context ends first, sleep returns the context's error.
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

// comesBack reports whether the server refused the request before any work, and may accept it
// later.
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

// passes reports whether a retry may succeed: if comesBack is true, if the connection failed, or if
// a proxy did not reach the server.
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
