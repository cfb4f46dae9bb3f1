package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// byModel has counters for each model. The set of models is fixed when the server starts.
type byModel struct {
	of map[string]*onModel
}

type onModel struct{ bytes, bits, loads, failures, drops prometheus.Counter }

func newByModel(mk maker, ids []string) byModel {
	each := func(name, help string) *prometheus.CounterVec {
		return mk.counters(name, help,
			"model")
	}
	bytes := each("model_scored_bytes_total", "Text scored by sessions of the model, in bytes.")
	bits := each("model_scored_shannons_total",
		"Information of the text scored by sessions of the model, under the adapting "+
			"model, in bits (shannons).")
	loads := each("model_loads_total",
		"Number of loads of the model's weights; 0 for the default model, whose weights are "+
			"always in memory.")
	failures := each("model_load_failures_total",
		"Number of failed loads of the model's weights; each failed load is retried.")
	drops := each("model_drops_total",
		"Number of evictions of the model's weights from memory.")
	b := byModel{of: map[string]*onModel{}}
	for _, id := range ids {
		b.of[id] = &onModel{
			bytes.WithLabelValues(id), bits.WithLabelValues(id), loads.WithLabelValues(id),
			failures.WithLabelValues(id), drops.WithLabelValues(id),
		}
	}
	return b
}

// Loaded implements session.Observer.
func (b *byModel) Loaded(model string, _ time.Duration, err error) {
	m := b.of[model]
	switch {
	case m == nil:
	case err != nil:
		m.failures.Inc()
	default:
		m.loads.Inc()
	}
}

// Dropped implements session.Observer.
func (b *byModel) Dropped(model string) {
	if m := b.of[model]; m != nil {
		m.drops.Inc()
	}
}
