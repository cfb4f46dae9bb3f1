package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// A failed attempt is repeated after pauseMin; each further one after twice the time, up to
// pauseMax.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 5 * time.Second
)

// backoff gives the pauses between attempts. The zero value is before the first.
type backoff struct{ last time.Duration }

// next is the pause after an attempt that has failed so: what the server asks for, or twice the
// pause before. Half of the latter is drawn, so that many clients do not come back at once.
func (b *backoff) next(err error) time.Duration {
	b.last = min(max(2*b.last, pauseMin), pauseMax)
	pause := b.last/2 + rand.N(b.last/2)
	if e := (*Error)(nil); errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

// sleep waits, and gives the context's error where that ends before.
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

// comesBack reports whether an error is the answer of a server that has done nothing, and may do it
// when it is asked again.
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

// passes reports whether an error may be gone when the request is repeated: connections that cannot
// be made or are cut, servers and proxies that are not there yet, and whatever comesBack says.
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
