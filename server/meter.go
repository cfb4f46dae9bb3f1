package server

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
	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/internal/session"
)

// meters has what each key is using.
type meters struct {
	mu    sync.Mutex
	byKey map[string]*meter // as many as keys were used since the start
}

// meter is what one key is using, of what it may. A nil meter measures nothing.
type meter struct {
	limits keys.Limits   // every field set
	bytes  *rate.Limiter // holds one second's worth; what is charged beyond that is debt

	mu       sync.Mutex
	requests int // at work
}

// of gives a key's meter. When the key's limits have changed it is a new one, with no debt; requests at work are counted on in the old one.
func (m *meters) of(k keys.Key) *meter {
	limits := withDefaultLimits(k.Limits)
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.byKey[k.ID]; old != nil && old.limits == limits {
		return old
	}
	perSecond := limits.BytesPerSecond
	made := &meter{limits: limits, bytes: rate.NewLimiter(rate.Limit(perSecond), int(min(perSecond, math.MaxInt)))}
	m.byKey[k.ID] = made
	return made
}

func withDefaultLimits(l keys.Limits) keys.Limits {
	if l.Sessions == 0 {
		l.Sessions = KeySessionsDefault
	}
	if l.Requests == 0 {
		l.Requests = KeyRequestsDefault
	}
	if l.BytesPerSecond == 0 {
		l.BytesPerSecond = KeyBytesPerSecondDefault
	}
	return l
}

// meterKey holds a key to its requests at work and its bytes a second.
func (s *Server) meterKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(*caller)
		if who == nil || who.meter == nil {
			next.ServeHTTP(w, r)
			return
		}
		m := who.meter
		if !m.begin() {
			p := newProblem(api.ProblemKeyRequestLimit, fmt.Sprintf("The key has %d requests at work.", m.limits.Requests))
			p.retryAfter = time.Second
			s.respondError(w, r, p)
			return
		}
		defer m.end()
		if hasBody(r) {
			if behind := m.behind(time.Now()); behind > time.Second {
				p := newProblem(api.ProblemKeyRateLimit,
					fmt.Sprintf("The key may have %d bytes a second, and is %.1f seconds behind.", m.limits.BytesPerSecond, behind.Seconds()))
				p.retryAfter = behind
				s.respondError(w, r, p)
				return
			}
			r.Body = &pacedBody{ReadCloser: r.Body, ctx: r.Context(), draining: s.draining, meter: m,
				check: func() error { return s.options.Keys.Check(who.Key) }}
		}
		next.ServeHTTP(w, r)
	})
}

// begin counts a request, unless there are as many as may be.
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

// behind is how long it takes until what was charged is paid.
func (m *meter) behind(now time.Time) time.Duration {
	debt := -m.bytes.TokensAt(now)
	return time.Duration(max(0, debt) / float64(m.limits.BytesPerSecond) * float64(time.Second))
}

// charge takes bytes from the second's worth, or makes debt, and gives the time until it is paid.
func (m *meter) charge(bytes int, now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	var wait time.Duration
	for burst := m.bytes.Burst(); bytes > 0; bytes -= burst { // no more than that at a time
		wait = m.bytes.ReserveN(now, min(bytes, burst)).DelayFrom(now)
	}
	return wait
}

// pacedBody is read no faster than the key may, and only as long as the key is good. Of several bodies each gets its turn: what one reads at a
// time is a small part of a second's worth.
type pacedBody struct {
	io.ReadCloser
	ctx      context.Context
	draining context.Context
	meter    *meter
	check    func() error
}

// Read waits after reading, while nobody waits for the client: the time does not count as the client's idleness.
func (b *pacedBody) Read(p []byte) (int, error) {
	if err := b.check(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), max(1, b.meter.bytes.Burst()/pacedParts))])
	wait := b.meter.charge(n, time.Now())
	if wait == 0 {
		return n, err
	}
	paid := time.NewTimer(wait)
	defer paid.Stop()
	select {
	case <-paid.C:
		return n, err
	case <-b.draining.Done():
		return 0, session.ErrDraining
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}
