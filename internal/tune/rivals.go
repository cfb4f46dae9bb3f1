package tune

import (
	"context"
	"fmt"

	"github.com/lmserve/lmserve/internal/eval"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/sparsemeta"
)

// Methods are those that can be tuned.
func Methods() []string { return []string{stream.DynamicSGD, stream.DynamicRMS, stream.Cache} }

// step is the ratio of two neighbours on the coarse grid; refined once, on the fine one its square root. An improvement below tolerance
// bits per byte is noise of the choice of text.
const (
	step      = 2
	tolerance = 2e-4
)

// Parameters are the settings of a method that are searched for, starting at the model's own.
func Parameters(m *model.Model, method string) ([]Parameter, error) {
	own, usual := m.Rivals, model.DefaultRivals()
	// A start of 0 is on no logarithmic grid.
	p := func(name string, start, otherwise, from, to float64) Parameter {
		if start <= 0 {
			start = otherwise
		}
		return Parameter{Name: name, Start: min(max(digits(start), from), to), Step: step, Min: from, Max: to}
	}
	dynamic := func(own, usual sparsemeta.DynamicSettings) []Parameter {
		return []Parameter{p("rate", float64(own.Rate), float64(usual.Rate), 1e-8, 1e3), p("decay", float64(own.Decay), float64(usual.Decay), 1e-6, 1)}
	}
	switch method {
	case stream.DynamicSGD:
		return dynamic(own.SGD, usual.SGD), nil
	case stream.DynamicRMS:
		return append(dynamic(own.RMS, usual.RMS), p("floor", float64(own.RMS.Floor), float64(usual.RMS.Floor), 1e-3, 1e2)), nil
	case stream.Cache:
		size := p("size", float64(own.Cache.Size), float64(usual.Cache.Size), 1, sparsemeta.CacheSizeMax)
		size.Whole = true
		return []Parameter{p("theta", float64(own.Cache.Theta), float64(usual.Cache.Theta), 1e-3, sparsemeta.CacheThetaMax),
			p("lambda", float64(own.Cache.Lambda), float64(usual.Cache.Lambda), 1e-3, 0.99), size}, nil
	}
	return nil, fmt.Errorf("tune: method is %q, expected one of %v", method, Methods())
}

// rivals are the model's settings with a method's parameters at these values.
func rivals(m *model.Model, method string, v []float64) model.Rivals {
	r := m.Rivals
	switch method {
	case stream.DynamicSGD:
		r.SGD.Rate, r.SGD.Decay = float32(v[0]), float32(v[1])
	case stream.DynamicRMS:
		r.RMS = sparsemeta.DynamicSettings{Rate: float32(v[0]), Decay: float32(v[1]), Floor: float32(v[2])}
	case stream.Cache:
		r.Cache = sparsemeta.CacheSettings{Theta: float32(v[0]), Lambda: float32(v[1]), Size: int(v[2])}
	}
	return r
}

// Method finds the settings of a method under which the texts, each a stream of its own, need the fewest bits per byte, and returns the
// model with them as its default.
func Method(ctx context.Context, m *model.Model, method string, texts [][]byte, threads int, visit func(Trial)) (*model.Model, Trial, error) {
	params, err := Parameters(m, method)
	if err != nil {
		return nil, Trial{}, err
	}
	if err := stream.Supports(m, method); err != nil {
		return nil, Trial{}, fmt.Errorf("tune: %w", err)
	}
	w := stream.NewWorker(m, threads)
	defer w.Close()
	best, err := Search{Refine: 1, Tolerance: tolerance, Visit: visit}.Minimise(params, func(values []float64) (float64, error) {
		candidate, err := m.WithRivals(rivals(m, method, values))
		if err != nil {
			return 0, err
		}
		return eval.BitsPerByte(ctx, w, m, stream.DefaultsFor(candidate, method), texts)
	})
	if err != nil {
		return nil, best, err
	}
	m, err = m.WithRivals(rivals(m, method, best.Values))
	return m, best, err
}
