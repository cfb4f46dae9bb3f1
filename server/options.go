package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/server/handler"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
)

// Options configures a Server. The zero value has the contract's limits, no keys and no log.
type Options struct {
	Keys              *keys.Ring    // nil: no keys required
	Log               *zap.Logger   // nil: no log
	Metrics           Metrics       // nil: nothing is counted, and /metrics is empty
	Version           string        // shown by the page; "": none
	ScoreBodyBytesMax int64         // 0: limits.ScoreBodyBytesMax, the largest value
	BodyIdleMax       time.Duration // 0: limits.BodyIdleMax, the largest value
	AnswerIdleMax     time.Duration // 0: limits.AnswerIdleMax, the largest value

	TLS            *tls.Config // nil: no TLS
	ConnectionsMax int         // concurrent, see placesListener; 0: no limit

	// AllowedHosts are names or addresses, besides loopback names, that a request may have as Host
	// and as the host of its Origin. A server without keys always checks both headers; a server
	// with keys checks them only with AllowedHosts.
	AllowedHosts []string

	// CORSOrigins are the origins whose pages may use the server from browsers, as scheme://host or
	// scheme://host:port. No other origin gets CORS headers.
	CORSOrigins []string

	// UserSessions creates a session on first use for each user that completions in OpenAI's form
	// name.
	UserSessions bool

	// Logs configures the sessions that log shippers feed.
	Logs handler.LogSessions

	// Around wraps all handling of a request, for example with tracing. nil: nothing.
	Around func(http.Handler) http.Handler

	// Places returns the server for a request if several share their sessions. nil: always this
	// server.
	Places middleware.Places

	// DrainDelay is the time between withdrawing readiness and refusing work, for load balancers to
	// react.
	DrainDelay time.Duration
}

// Validate returns an error for the first option out of range.
func (o Options) Validate() error {
	for _, limit := range []struct {
		name       string
		value, max int64
	}{
		{"ScoreBodyBytesMax", o.ScoreBodyBytesMax, limits.ScoreBodyBytesMax},
		{"BodyIdleMax", int64(o.BodyIdleMax), int64(limits.BodyIdleMax)},
		{"AnswerIdleMax", int64(o.AnswerIdleMax), int64(limits.AnswerIdleMax)},
		{"ConnectionsMax", int64(o.ConnectionsMax), math.MaxInt32},
		{"DrainDelay", int64(o.DrainDelay), int64(time.Hour)},
	} {
		if limit.value < 0 || limit.value > limit.max {
			return fmt.Errorf("server: option %s: found %d, expected 0 to %d",
				limit.name, limit.value, limit.max)
		}
	}
	for _, origin := range o.CORSOrigins {
		if _, err := middleware.Origin(origin); err != nil {
			return fmt.Errorf("server: option CORSOrigins: %w", err)
		}
	}
	return nil
}

// withDefaults fills in zero options and normalizes origins. The options must be valid.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	o.ScoreBodyBytesMax = cmp.Or(o.ScoreBodyBytesMax, limits.ScoreBodyBytesMax)
	o.BodyIdleMax = cmp.Or(o.BodyIdleMax, limits.BodyIdleMax)
	o.AnswerIdleMax = cmp.Or(o.AnswerIdleMax, limits.AnswerIdleMax)
	origins := make([]string, 0, len(o.CORSOrigins))
	for _, text := range o.CORSOrigins {
		origin, _ := middleware.Origin(text) // Validate has checked it
		origins = append(origins, origin)
	}
	o.CORSOrigins = origins
	return o
}
