package server

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/server/middleware"
)

// Metrics counts the server's work and serves the counts. All methods may be called concurrently.
type Metrics interface {
	middleware.Observer
	// Refused counts a problem sent to a client. The argument is the type of the problem, such as
	// session-not-found.
	Refused(problem string)
	// Proxied counts a request forwarded to another server.
	Proxied()
	// ServeHTTP serves the metrics in the Prometheus format that the request's Accept header
	// selects.
	http.Handler
}

type noMetrics struct{}

func (noMetrics) RequestBegan()                                                    {}
func (noMetrics) RequestEnded(context.Context, string, string, int, time.Duration) {}
func (noMetrics) Refused(string)                                                   {}
func (noMetrics) Proxied()                                                         {}
func (noMetrics) ServeHTTP(http.ResponseWriter, *http.Request)                     {}
