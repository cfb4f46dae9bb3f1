// Package metrics counts a server's work for Prometheus. The HTTP server reports requests, and the
// session manager reports work through session.Observer. Neither of them depends on Prometheus.
//
// Labels have few values, all known in advance. The label route is a route of the API contract,
// never a path. No label names a session, a key or a client. docs/operations.md lists all metrics.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lmserve/lmserve/internal/serving/session"
)

const namespace = "lmserve"

// Options are the properties of a server that do not change while it runs.
type Options struct {
	Version  string
	Models   []string // model names with the beginnings of their hashes; the first is the default
	Numerics string   // name of the arithmetic, such as "float32-fma"
	// Problems are the possible values of the label problem. Their counters are exported from the
	// start, as 0.
	Problems []string
}

// Metrics are the metrics of a server. All methods are safe for concurrent use; those that count
// events allocate nothing.
type Metrics struct {
	requests
	work
	byModel
	folder
	sharing
	watched
	registry     *prometheus.Registry
	http.Handler // answers with the current metrics
}

var _ session.Observer = (*Metrics)(nil)

// New returns metrics that are all zero.
func New(o Options) *Metrics {
	registry := prometheus.NewRegistry()
	mk := maker{promauto.With(registry)}
	m := &Metrics{
		requests: newRequests(mk, o.Problems), work: newWork(mk), byModel: newByModel(mk, o.Models),
		folder: newFolder(mk), sharing: newSharing(mk), watched: newWatched(mk), registry: registry,
		Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
	}
	mk.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info",
		Help: "Always 1; the labels have the version, the arithmetic and the default model.",
		ConstLabels: prometheus.Labels{
			"version": o.Version, "model": o.Models[0], "numerics": o.Numerics,
		},
	}).Set(1)
	models := mk.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "model_info",
		Help: "Always 1, for each model that sessions can use; default is yes for the default " +
			"model and no for the others.",
	}, []string{"default", "model"})
	for i, name := range o.Models {
		models.WithLabelValues(map[bool]string{true: "yes", false: "no"}[i == 0], name).Set(1)
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &m.folder,
	)
	return m
}

// Scored implements session.Observer.
func (m *Metrics) Scored(model, learn string, t session.Tally) {
	m.work.scoredText(learn, t)
	if on := m.byModel.of[model]; on != nil {
		on.bytes.Add(float64(t.Bytes))
		on.bits.Add(t.Bits)
	}
}

type maker struct{ promauto.Factory }

func (m maker) counter(name, help string) prometheus.Counter {
	return m.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return m.NewCounterVec(
		prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels,
	)
}

func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
	}
}
