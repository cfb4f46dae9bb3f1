package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// The pause after the first failed attempt is pauseMin. It doubles with each further one, up to
// pauseMax.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 5 * time.Second
)

// backoff returns the pauses between attempts. The zero value is ready for the first failure.
type backoff struct{ last time.Duration }

// next returns the pause after a failed attempt: the server's Retry-After, or else twice the
// previous pause. Half of the latter is random, so that many clients do not return at once.
func (b *backoff) next(err error) time.Duration {
	b.last = min(max(2*b.last, pauseMin), pauseMax)
	pause := b.last/2 + rand.N(b.last/2)
	if e := (*Error)(nil); errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

// sleep waits for d, or returns the context's error if that ends first.
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

// comesBack reports whether err is the answer of a server that has done nothing and may succeed on
// a retry.
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

// passes reports whether a retry may succeed: after broken or refused connections, for servers and
// proxies that are not up yet, and in all cases of comesBack.
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
