package metrics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type requests struct {
	ended    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

// requestSeconds are the bounds of histogram buckets, in seconds. The last bounds are large,
// because a streaming request lasts as long as its client is connected.
var requestSeconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60,
	300}

func newRequests(mk maker, problems []string) requests {
	r := requests{
		ended: mk.counters("http_requests_total",
			"Number of finished requests; status is 2xx to 5xx, and 4xx if the client left "+
				"before the answer.",
			"route", "method", "status"),
		seconds: mk.NewHistogramVec(histogramOpts("http_request_seconds",
			"Time from a request's headers to the end of its answer, which may be a "+
				"stream, in seconds.", requestSeconds),
			[]string{"route", "method"}),
		inFlight: mk.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_requests_in_flight",
			Help: "Number of requests in progress.",
		}),
		refused: mk.counters("refusals_total",
			"Number of requests answered with a problem, and of streams that ended with "+
				"a problem.",
			"problem"),
	}
	for _, problem := range problems {
		r.refused.WithLabelValues(problem)
	}
	return r
}

// RequestBegan counts a request that has arrived.
func (r *requests) RequestBegan() { r.inFlight.Inc() }

// RequestEnded counts a completed request. route is a pattern of the contract, or empty if no
// pattern matches.
func (r *requests) RequestEnded(
	_ context.Context, route, method string, status int, took time.Duration,
) {
	if route == "" {
		route = "none"
	}
	if !slices.Contains(methods, method) {
		method = "other"
	}
	r.inFlight.Dec()
	r.ended.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	r.seconds.WithLabelValues(route, method).Observe(took.Seconds())
}

// methods are the values of the label method, except "other".
var methods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// Refused counts a problem that was sent to a client.
func (r *requests) Refused(problem string) { r.refused.WithLabelValues(problem).Inc() }
