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

// Options of a Server. The zero value has the limits of the contract, asks for no keys and writes
// no log.
type Options struct {
	Keys              *keys.Ring    // nil: the server asks for no keys
	Log               *zap.Logger   // nil: no log
	Metrics           Metrics       // nil: nothing is counted, and /metrics is empty
	ScoreBodyBytesMax int64         // 0: limits.ScoreBodyBytesMax, which it cannot exceed
	BodyIdleMax       time.Duration // 0: limits.BodyIdleMax, which it cannot exceed
	AnswerIdleMax     time.Duration // 0: limits.AnswerIdleMax, which it cannot exceed

	TLS            *tls.Config // nil: the server speaks no TLS
	ConnectionsMax int         // at the same time, see placesListener. 0: no limit

	// AllowedHosts are names or addresses that requests may bring as their Host, and as the host of
	// their Origin, besides loopback names. Without keys both headers are always looked at; with
	// keys they are if there are AllowedHosts.
	AllowedHosts []string

	// CORSOrigins are the origins whose pages may use the server from browsers, each as
	// scheme://host or scheme://host:port. For all others the server has no CORS.
	CORSOrigins []string

	// UserSessions makes a session for each user that completions in OpenAI's form name, on first
	// use.
	UserSessions bool

	// Logs are the sessions that the routes of log shippers feed.
	Logs handler.LogSessions

	// Around goes around all else that the server does with a request, as what traces requests
	// does. Nil: nothing.
	Around func(http.Handler) http.Handler

	// Places says which server a request is for, where several share their sessions. Nil: all are
	// for this one.
	Places middleware.Places

	// DrainDelay is the time between readiness going and work being refused, for load balancers to
	// notice. 0: none.
	DrainDelay time.Duration
}

// Validate reports the first option that is out of range.
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

// withDefaults fills in what is zero, and brings origins into the form that browsers send. The
// options are valid.
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
		origin, _ := middleware.Origin(text) // Validate has seen that it is one
		origins = append(origins, origin)
	}
	o.CORSOrigins = origins
	return o
}
