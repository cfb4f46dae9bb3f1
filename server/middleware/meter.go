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

type meters struct {
	mu    sync.Mutex
	byKey map[string]*meter // one entry for each key used since the start
}

type meter struct {
	limits keys.Limits   // all fields are set
	bytes  *rate.Limiter // holds the bytes of one second; bytes beyond them become debt

	mu       sync.Mutex
	requests int
}

// of returns the meter of a key. If the limits have changed, it creates a new meter without debt.
// Requests in progress still count on the old meter.
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

// behind returns the time until the rate limit has made up for the bytes charged in excess.
func (m *meter) behind(now time.Time) time.Duration {
	debt := -m.bytes.TokensAt(now)
	return time.Duration(max(0, debt) / float64(m.limits.BytesPerSecond) * float64(time.Second))
}

// charge counts bytes against the rate limit, and never refuses them. It returns how long the
// caller must wait until the rate is met again.
func (m *meter) charge(bytes int, now time.Time) time.Duration {
	var wait time.Duration
	// ReserveN accepts at most Burst bytes
	for burst := m.bytes.Burst(); bytes > 0; bytes -= burst {
		wait = m.bytes.ReserveN(now, min(bytes, burst)).DelayFrom(now)
	}
	return wait
}

type meterKey struct{}

// Charge charges the request's key for bytes that the server produced. It does nothing if the
// caller has no limits.
func Charge(ctx context.Context, bytes int) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.charge(bytes, time.Now())
	}
}

// Meter limits the concurrent requests and the bytes per second of each key. When the context
// draining is done, a body no longer waits for the rate limit. Meter runs after Authenticate, which
// determines the caller and the limits.
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

func requestsProblem(m *meter) *problem.Problem {
	p := problem.New(api.ProblemKeyRequestLimit,
		fmt.Sprintf("The key has %d requests in progress, its maximum.", m.limits.Requests))
	p.RetryAfter = time.Second
	return p
}

func behindProblem(m *meter, behind time.Duration) *problem.Problem {
	p := problem.New(api.ProblemKeyRateLimit,
		fmt.Sprintf("The key may send %d bytes per second. Retry after %.1f seconds.",
			m.limits.BytesPerSecond, behind.Seconds()))
	p.RetryAfter = behind
	return p
}

// pacedBody limits reading of a body to the rate of the key. One read returns at most
// 1/limits.PacedParts of the bytes per second, so that concurrent bodies of a key alternate.
type pacedBody struct {
	io.ReadCloser
	ctx      context.Context
	draining context.Context
	meter    *meter
}

// Read waits after reading, until the rate limit is met. During the wait, the server notices if the
// client leaves, and the client's idle time does not count.
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
