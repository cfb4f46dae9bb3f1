package server

import (
	"context"
	"io"
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
	// Write writes all that was counted, in Prometheus' text format.
	Write(w io.Writer) error
}

// noMetrics are those of a server that has none.
type noMetrics struct{}

func (noMetrics) RequestBegan()                                                    {}
func (noMetrics) RequestEnded(context.Context, string, string, int, time.Duration) {}
func (noMetrics) Refused(string)                                                   {}
func (noMetrics) Proxied()                                                         {}
func (noMetrics) Write(io.Writer) error                                            { return nil }
