package metrics

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmserve/lmserve/internal/serving/session"
)

type work struct {
	phases  *prometheus.HistogramVec
	byPhase [session.Phases]prometheus.Observer

	// by the value of the label learn; index 0 is without a baseline, index 1 with a baseline
	scored           map[string]*[2]scored
	followed, shadow compared

	lines, flagged   prometheus.Counter
	strange          *prometheus.CounterVec
	strangeness      prometheus.Histogram
	completions      *prometheus.CounterVec
	completionTokens prometheus.Counter

	snapshots        prometheus.Histogram
	snapshotFailures prometheus.Counter
	replayed         prometheus.Counter
}

type scored struct{ bytes, tokens, bits, baseline prometheus.Counter }

// compared counts text that a session and its shadow have both scored.
type compared struct{ bytes, bits prometheus.Counter }

// add counts text without its unknown words, so that byte models and word models are comparable.
func (c compared) add(t session.Tally) {
	c.bytes.Add(float64(t.Bytes - t.UnknownBytes))
	c.bits.Add(max(0, t.Bits-t.UnknownBits)) // rounding may make the difference negative
}

// phaseSeconds are the bounds of histogram buckets, in seconds. They range from a token of a small
// model to a long recovery.
var phaseSeconds = prometheus.ExponentialBuckets(.0001, 2, 20)

// strangenessBounds are the bounds of histogram buckets for -log10(P). The value 3 means that one
// line in a thousand is at least this strange.
var strangenessBounds = []float64{.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6}

func newWork(mk maker) work {
	w := work{
		scored: map[string]*[2]scored{},
		phases: mk.NewHistogramVec(histogramOpts("phase_seconds",
			"Time of a chunk, or of a turn of a completion, in each phase, in seconds.",
			phaseSeconds), []string{"phase"}),
		lines: mk.counter("lines_total",
			"Number of finished lines of requests with unit=line."),
		flagged: mk.counter("lines_flagged_total",
			"Number of lines that were not learned because they were too long or "+
				"stranger than the request's threshold."),
		strange: mk.counters("lines_strange_total",
			"Number of lines with a p of at most 1/1000, by the method of their session.",
			"method"),
		strangeness: mk.NewHistogram(histogramOpts("line_strangeness",
			"-log10 of each line's p, so 3 is one line in a thousand; the first lines of "+
				"a session do not count.",
			strangenessBounds)),
		completions: mk.counters("completions_total",
			"Number of finished completions, by the reason for their end.", "reason"),
		completionTokens: mk.counter("completion_tokens_total",
			"Number of tokens of finished completions."),
		snapshots: mk.NewHistogram(histogramOpts("snapshot_seconds",
			"Time to write the state of a session, in seconds.", phaseSeconds)),
		snapshotFailures: mk.counter("snapshot_failures_total",
			"Number of session states that could not be written; each failed write is "+
				"retried."),
		replayed: mk.counter("replayed_bytes_total",
			"Text recomputed to restore the states of cold sessions, in bytes."),
	}
	for p := range session.Phases {
		w.byPhase[p] = w.phases.WithLabelValues(p.String())
	}
	for _, reason := range []string{session.FinishStop, session.FinishLength} {
		w.completions.WithLabelValues(reason)
	}
	w.makeScored(mk)
	w.makeShadows(mk)
	return w
}

func (w *work) makeScored(mk maker) {
	of := []string{"learn", "baseline"}
	bytes := mk.counters("scored_bytes_total",
		"Scored text in bytes; learn is the request's value, and baseline says whether the "+
			"session has a baseline.", of...)
	tokens := mk.counters("scored_tokens_total", "Number of scored tokens.", of...)
	bits := mk.counters("scored_shannons_total",
		"Information of the scored text under the adapting models, in bits (shannons).",
		of...)
	baseline := mk.counters("baseline_shannons_total",
		"Information, under the static model, of the text of sessions with a baseline, "+
			"in bits (shannons).",
		"learn")
	for _, learn := range []string{
		session.LearnTrue, session.LearnFalse, session.LearnUnflagged,
	} {
		w.scored[learn] = new([2]scored)
		for i, has := range []string{"no", "yes"} {
			w.scored[learn][i] = scored{
				bytes: bytes.WithLabelValues(learn, has), tokens: tokens.WithLabelValues(learn,
					has),
				bits: bits.WithLabelValues(learn, has), baseline: baseline.WithLabelValues(learn),
			}
		}
	}
}

func (w *work) makeShadows(mk maker) {
	bytes := mk.counters("shadow_bytes_total",
		"Text scored by both a session and its shadow, in bytes, without words unknown "+
			"to the model; role is session or shadow.",
		"role")
	bits := mk.counters("shadow_shannons_total",
		"Information of the text of lmserve_shadow_bytes_total, in bits (shannons); the "+
			"role with fewer bits per byte predicts better.", "role")
	of := func(role string) compared {
		return compared{bytes.WithLabelValues(role), bits.WithLabelValues(role)}
	}
	w.followed, w.shadow = of("session"), of("shadow")
}

// Phase implements session.Observer.
func (w *work) Phase(_ context.Context, p session.Phase, began, ended time.Time) {
	w.byPhase[p].Observe(ended.Sub(began).Seconds())
}

func (w *work) scoredText(learn string, t session.Tally) {
	has := 0
	if t.BaselineBits != nil {
		has = 1
	}
	of := &w.scored[learn][has]
	of.bytes.Add(float64(t.Bytes))
	of.tokens.Add(float64(t.Tokens))
	of.bits.Add(t.Bits)
	if t.BaselineBits != nil {
		of.baseline.Add(*t.BaselineBits)
	}
}

// strange is the largest rating P of a line that counts as strange. The command watch has the same
// default.
const strange = 1. / 1000

// Line implements session.Observer. The ratings of a session's first lines are not counted, because
// they are unreliable.
func (w *work) Line(method string, l *session.Line) {
	w.lines.Inc()
	if l.Unlearnt {
		w.flagged.Inc()
	}
	if l.Warm() {
		w.strangeness.Observe(-math.Log10(l.P))
		if l.P <= strange {
			w.strange.WithLabelValues(method).Inc()
		}
	}
}

// Compared implements session.Observer.
func (w *work) Compared(followed, shadow session.Tally) {
	w.followed.add(followed)
	w.shadow.add(shadow)
}

// Completed implements session.Observer.
func (w *work) Completed(reason string, tokens int) {
	w.completions.WithLabelValues(reason).Inc()
	w.completionTokens.Add(float64(tokens))
}

// Snapshot implements session.Observer.
func (w *work) Snapshot(took time.Duration, err error) {
	if err != nil {
		w.snapshotFailures.Inc()
		return
	}
	w.snapshots.Observe(took.Seconds())
}

// Replayed implements session.Observer.
func (w *work) Replayed(bytes int64) { w.replayed.Add(float64(bytes)) }
