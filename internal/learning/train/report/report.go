// Package report shows a training run to people: a live bar or lines on a terminal, a file of
// metrics, and a page with the recipe, the results and the curves. All of them observe the run
// through train.Observer. The run does not depend on them.
package report

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/lmserve/lmserve/internal/learning/train"
)

// Options select the reports of a run. Zero fields mean the given defaults.
type Options struct {
	// gets a live bar on a terminal, otherwise a line from time to time; nil means no progress
	Progress io.Writer
	// Metrics is a file to which metrics are appended as JSON lines. "" means "metrics.jsonl" in
	// the folder of the checkpoints, if there is one.
	Metrics string
	// path of an HTML page with the recipe, the results and the curves; "" means no page
	Page     string
	LogEvery int // steps between two lines of metrics; 0 means 10
}

const (
	logEveryDefault = 10
	logEveryMax     = 1 << 30
)

// New returns an observer of one run. The error is a *train.OptionError.
func New(o Options) (train.Observer, error) {
	if o.LogEvery == 0 {
		o.LogEvery = logEveryDefault
	}
	if o.LogEvery < 1 || o.LogEvery > logEveryMax {
		return nil, &train.OptionError{Field: "LogEvery", Found: fmt.Sprint(o.LogEvery),
			Want: fmt.Sprintf("1 to %d", logEveryMax)}
	}
	m := &metrics{path: o.Metrics, pace: pace{every: o.LogEvery}}
	all := observers{&page{path: o.Page, metrics: m}, m}
	if o.Progress != nil {
		all = append(all, &progress{w: o.Progress, pace: pace{every: o.LogEvery}})
	}
	return all, nil
}

// observers are called one after another, up to the first that returns an error.
type observers []train.Observer

// Observe passes Finished to all observers, even after an error, so that they close their files.
func (all observers) Observe(e train.Event) (first error) {
	_, last := e.(train.Finished)
	for _, o := range all {
		err := o.Observe(e)
		if first = cmp.Or(first, err); first != nil && !last {
			return first
		}
	}
	return first
}

func roundly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()+.5))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()+.5))
	}
	minutes := int(d.Minutes() + .5)
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}
