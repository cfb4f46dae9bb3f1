package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

// Methods returns the methods that can be tuned.
func Methods() []string { return []string{stream.DynamicSGD, stream.DynamicRMS, stream.Cache} }

// The constant `step` is the ratio of neighboring values on the coarse grid. On the fine grid the
// ratio is the square root of `step`. The tolerances are in bits per byte and, for models of words,
// in bits per token. An improvement below the tolerance is noise: another choice of texts could
// undo the improvement.
const (
	step          = 2
	tolerance     = 2e-4
	wordTolerance = 1e-3
)

// Parameters returns the settings of a method that a search varies: the rows of stream.Table with a
// search range. The search begins at the model's values, or at the default for a value of 0.
func Parameters(m *model.Model, method string) ([]Parameter, error) {
	rows, err := searched(method)
	if err != nil {
		return nil, err
	}
	own, usual := stream.DefaultsFor(m, method), stream.DefaultsFor(m, method)
	stream.SetRivals(&usual, model.DefaultRivals())
	params := make([]Parameter, len(rows))
	for i, r := range rows {
		start := r.Number(&own)
		if start <= 0 { // a logarithmic grid has no 0
			start = r.Number(&usual)
		}
		params[i] = Parameter{
			// The name lacks the method's prefix: cache_size becomes size.
			Name:  strings.TrimPrefix(r.Name, method+"_"),
			Start: min(max(digits(start), r.Search.Min), r.Search.Max),
			Step:  step, Min: r.Search.Min, Max: r.Search.Max, Whole: r.Whole(),
		}
	}
	return params, nil
}

// searched returns the rows of stream.Table to tune for a method. Integers come last, since a step
// of an integer changes the score most.
func searched(method string) (setting.Table[stream.Settings], error) {
	if !slices.Contains(Methods(), method) {
		return nil, fmt.Errorf("tune: method is %q, expected one of %v", method, Methods())
	}
	rows := slices.DeleteFunc(stream.Table.Of(method), func(r setting.Row[stream.Settings]) bool {
		return r.Search == setting.Range{}
	})
	slices.SortStableFunc(rows, func(a, b setting.Row[stream.Settings]) int {
		switch {
		case a.Whole() == b.Whole():
			return 0
		case b.Whole():
			return -1
		}
		return 1
	})
	return rows, nil
}

func withValues(m *model.Model, method string, values []float64) (*model.Model, error) {
	rows, err := searched(method)
	if err != nil {
		return nil, err
	}
	set := stream.DefaultsFor(m, method)
	for i, r := range rows {
		r.SetNumber(&set, values[i])
	}
	return m.WithRivals(stream.RivalsOf(set))
}

// Method searches for the settings of a method that minimize the bits per token of the texts. Each
// text is a separate stream. Method returns a model with these settings as its defaults, and the
// best trial.
func Method(ctx context.Context, m *model.Model, method string, texts [][]byte, threads int,
	visit func(Trial)) (*model.Model, Trial, error) {
	params, err := Parameters(m, method)
	if err != nil {
		return nil, Trial{}, err
	}
	if err := stream.Supports(m, method); err != nil {
		return nil, Trial{}, fmt.Errorf("tune: %w", err)
	}
	w := stream.NewWorker(m, threads)
	defer w.Close()
	search := Search{Refine: 1, Tolerance: tolerance, Visit: visit}
	if m.OfWords() {
		search.Tolerance = wordTolerance
	}
	best, err := search.Minimize(params, func(values []float64) (float64, error) {
		candidate, err := withValues(m, method, values)
		if err != nil {
			return 0, err
		}
		set := stream.DefaultsFor(candidate, method)
		set.Companion = false // only the method itself is tuned
		return eval.BitsPerToken(ctx, w, m, set, texts)
	})
	if err != nil {
		return nil, best, err
	}
	m, err = withValues(m, method, best.Values)
	return m, best, err
}
