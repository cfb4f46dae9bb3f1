package middleware

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// meters has the meters of all keys.
type meters struct {
	mu    sync.Mutex
	byKey map[string]*meter // each key used since the start
}

// meter counts one key's use against its limits.
type meter struct {
	limits keys.Limits   // every field set
	bytes  *rate.Limiter // has the bytes of one second; further bytes become debt

	mu       sync.Mutex
	requests int // in progress
}

// of returns the meter of a key. New limits get a new meter without debt; the old meter keeps
// counting the requests that it admitted.
func (m *meters) of(key string, limits keys.Limits) *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.byKey[key]; old != nil && old.limits == limits {
		return old
	}
	perSecond := limits.BytesPerSecond
	made := &meter{
		limits: limits,
		bytes:  rate.NewLimiter(rate.Limit(perSecond), int(min(perSecond, math.MaxInt))),
	}
	m.byKey[key] = made
	return made
}

// begin counts a request. It returns false if the key has reached its limit.
func (m *meter) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests >= m.limits.Requests {
		return false
	}
	m.requests++
	return true
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests--
}

// behind returns the time until the debt is paid.
func (m *meter) behind(now time.Time) time.Duration {
	debt := -m.bytes.TokensAt(now)
	return time.Duration(max(0, debt) / float64(m.limits.BytesPerSecond) * float64(time.Second))
}

// charge subtracts bytes from those available in this second; further bytes become debt. It returns
// the time until the debt is paid.
func (m *meter) charge(bytes int, now time.Time) time.Duration {
	var wait time.Duration
	for burst := m.bytes.Burst(); bytes > 0; bytes -= burst { // ReserveN accepts at most this many
		wait = m.bytes.ReserveN(now, min(bytes, burst)).DelayFrom(now)
	}
	return wait
}

type meterKey struct{}

// Charge charges the request's key for bytes that the server produced. It does nothing for a caller
// without limits.
func Charge(ctx context.Context, bytes int) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.charge(bytes, time.Now())
	}
}

// Meter limits each key's concurrent requests and its bytes per second. Once the context draining
// is done, a body no longer waits for its key's rate. Meter runs after Authenticate, which finds
// the caller and the limits.
func Meter(draining context.Context, problems *answer.Problems) func(http.Handler) http.Handler {
	meters := &meters{byKey: map[string]*meter{}}
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		who, _ := r.Context().Value(callerKey{}).(caller)
		if who.Key == "" {
			next.ServeHTTP(w, r)
			return
		}
		m := meters.of(who.Key, who.limits)
		if !m.begin() {
			problems.Answer(w, r, requestsProblem(m))
			return
		}
		defer m.end()
		r = r.WithContext(context.WithValue(r.Context(), meterKey{}, m))
		if contract.HasBody(r) {
			if behind := m.behind(time.Now()); behind > time.Second {
				problems.Answer(w, r, behindProblem(m, behind))
				return
			}
			r.Body = &pacedBody{ReadCloser: r.Body, ctx: r.Context(), draining: draining, meter: m}
		}
		next.ServeHTTP(w, r)
	})
}

// requestsProblem says that a key has too many concurrent requests.
func requestsProblem(m *meter) *problem.Problem {
	p := problem.New(api.ProblemKeyRequestLimit,
		fmt.Sprintf("The key has %d requests in progress, its maximum.", m.limits.Requests))
	p.RetryAfter = time.Second
	return p
}

// behindProblem says that a key has exceeded its bytes per second.
func behindProblem(m *meter, behind time.Duration) *problem.Problem {
	p := problem.New(api.ProblemKeyRateLimit,
		fmt.Sprintf("The key may send %d bytes per second. Retry after %.1f seconds.",
			m.limits.BytesPerSecond, behind.Seconds()))
	p.RetryAfter = behind
	return p
}

// pacedBody limits reading to the key's rate. A single read takes a small part of a second's worth,
// so that concurrent bodies of the key take turns.
type pacedBody struct {
	io.ReadCloser
	ctx      context.Context
	draining context.Context
	meter    *meter
}

// Read waits after reading. The client may leave meanwhile, and the wait does not count as the
// client's idle time.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), max(1, b.meter.bytes.Burst()/limits.PacedParts))])
	wait := b.meter.charge(n, time.Now())
	if wait == 0 {
		return n, err
	}
	defer Attend(b.ctx)()
	paid := time.NewTimer(wait)
	defer paid.Stop()
	select {
	case <-paid.C:
		return n, err
	case <-b.draining.Done():
		return 0, session.ErrDraining
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
}
