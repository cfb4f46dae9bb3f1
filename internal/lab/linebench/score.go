package main

import (
	"github.com/lmserve/lmserve"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// scored is a line with what the models say of it.
type scored struct {
	line
	adaptive lines.Line // costs under the model that learns, with their strangeness
	static   lines.Line // costs under the model as it is, with the strangeness of these
}

// score reads a log with a stream of the model, in one pass.
func score(m *lmserve.Model, log []line) ([]scored, error) {
	settings := m.Settings()
	settings.Baseline = true
	stream, err := m.Open(settings)
	if err != nil {
		return nil, err
	}
	result := make([]scored, len(log))
	adaptive, static := lines.NewMeter(), lines.NewMeter()
	for i := range log {
		r := &result[i]
		r.line = log[i]
		stream.FeedEach([]byte(log[i].text+"\n"), func(b byte, bits, baseline float64) {
			adaptive.Add(b, bits, baseline, func(l *lines.Line) { r.adaptive = *l })
			static.Add(b, baseline, baseline, func(l *lines.Line) { r.static = *l })
		})
	}
	return result, nil
}
