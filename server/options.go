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

// Options configures a Server. In the zero value, the limits are those of the contract, and there
// are no keys and no log.
type Options struct {
	Keys              *keys.Ring    // nil: no keys required
	Log               *zap.Logger   // nil: no log
	Metrics           Metrics       // nil: /metrics is empty
	Version           string        // version that the web page shows; "": none
	ScoreBodyBytesMax int64         // 0: limits.ScoreBodyBytesMax, also the largest allowed value
	BodyIdleMax       time.Duration // 0: limits.BodyIdleMax, also the largest allowed value
	AnswerIdleMax     time.Duration // 0: limits.AnswerIdleMax, also the largest allowed value

	TLS            *tls.Config // nil: no TLS
	ConnectionsMax int         // concurrent connections; 0: no limit

	// AllowedHosts are names or addresses that requests may have in the headers Host and Origin,
	// besides loopback names. A server without keys always checks both headers. A server with keys
	// checks them only if AllowedHosts is set.
	AllowedHosts []string

	// CORSOrigins are the origins whose browser pages may use the server, as scheme://host or
	// scheme://host:port. The server sends CORS headers only to these origins.
	CORSOrigins []string

	// UserSessions makes the server create a session for each user whom a completion in OpenAI's
	// form names, on first use.
	UserSessions bool

	// Logs configures the sessions that receive text from log shippers.
	Logs handler.LogSessions

	// Around wraps the handler of all requests, for example with tracing; nil: no wrapper.
	Around func(http.Handler) http.Handler

	// Places finds the server that has a session, if several servers share their sessions; nil:
	// this server has all sessions.
	Places middleware.Places

	// DrainDelay is how long a stopping server reports that it is not ready before it refuses work.
	// Load balancers can react in this time.
	DrainDelay time.Duration
}

// Validate returns an error for the first option that is out of range.
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

// withDefaults fills in the defaults of zero options and normalizes CORSOrigins. The options must
// be valid.
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
		origin, _ := middleware.Origin(text) // Validate has checked the origin
		origins = append(origins, origin)
	}
	o.CORSOrigins = origins
	return o
}
