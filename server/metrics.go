package server

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/server/middleware"
)

// Metrics counts what the server does, and tells it. All methods may be called at once.
type Metrics interface {
	middleware.Observer
	// Refused is told of the kind of a problem that a client was told, as session-not-found.
	Refused(problem string)
	// Proxied is told of a request that is passed to another server.
	Proxied()
	// ServeHTTP answers with all that was counted, in a format of Prometheus that the request asks
	// for.
	http.Handler
}

// noMetrics are those of a server that has none.
type noMetrics struct{}

func (noMetrics) RequestBegan()                                                    {}
func (noMetrics) RequestEnded(context.Context, string, string, int, time.Duration) {}
func (noMetrics) Refused(string)                                                   {}
func (noMetrics) Proxied()                                                         {}
func (noMetrics) ServeHTTP(http.ResponseWriter, *http.Request)                     {}
