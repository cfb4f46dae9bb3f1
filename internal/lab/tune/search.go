// Package tune optimizes settings by search on a logarithmic grid. It tunes the baseline methods
// with which the method sparse-meta is compared.
package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Parameter is a positive number to optimize. The search tries Start times powers of Step, rounded
// to three digits, from Min to Max.
type Parameter struct {
	Name     string
	Start    float64
	Step     float64 // above 1
	Min, Max float64
	Whole    bool
}

// Trial is a tried point of the grid, with its score. The score is +Inf if the objective returned
// NaN or +Inf.
type Trial struct {
	Values []float64
	Score  float64
	Best   bool
	// Left is the number of remaining trials, if no later trial is better.
	Left int
}

// Search configures a search.
type Search struct {
	// Refine is how often the grid is refined. Each refinement replaces the step by its square
	// root.
	Refine int
	// Tolerance is the minimum improvement for which the search makes a step. Without a tolerance
	// the search would follow a flat objective to its bounds.
	Tolerance float64
	// Visit, if set, is called with every trial.
	Visit func(Trial)
}

// ErrNoScore means that no tried point had a finite score, so the search could not begin. The tried
// points are the start, its neighbors, and points with a smaller first parameter.
var ErrNoScore = errors.New("none of the tried settings has a finite score")

// Minimize searches for the values with the smallest f. It calls f once for each tried point. An
// error of f ends the search.
//
// From the start, the search changes one parameter at a time, as long as a step lowers f. Min and
// Max bound each parameter. If no such step helps, the search changes two parameters at once.
//
// If f is not finite at the start, the search lowers the first parameter until f is finite. This
// helps if the first parameter is a learning rate that is too large: then f may be infinite at all
// neighbors of the start.
func (s Search) Minimize(params []Parameter, f func(values []float64) (float64, error)) (Trial,
	error) {
	if err := check(params); err != nil {
		return Trial{}, err
	}
	w := &walk{Search: s, params: params, f: f, tried: map[string]float64{},
		best: Trial{Score: math.Inf(1)}}
	w.stride = 1 << s.Refine
	w.at, w.moves = make([]int, len(params)), moves(len(params))
	if _, err := w.try(w.at); err != nil {
		return Trial{}, err
	}
	for below := slices.Clone(w.at); math.IsInf(w.best.Score, 1); {
		below[0] -= w.stride
		if _, inside := params[0].value(below[0], 1<<s.Refine); !inside {
			break
		}
		if _, err := w.try(slices.Clone(below)); err != nil {
			return Trial{}, err
		}
	}
	for ; w.stride > 0; w.stride /= 2 {
		for moved := true; moved; {
			var err error
			if moved, err = w.round(); err != nil {
				return Trial{}, err
			}
		}
	}
	if math.IsInf(w.best.Score, 1) {
		return w.best, fmt.Errorf("tune: %w: choose start values different from %v", ErrNoScore,
			w.best.Values)
	}
	return w.best, nil
}

func check(params []Parameter) error {
	for _, p := range params {
		switch {
		case !(p.Step > 1):
			return fmt.Errorf("tune: %s: step is %v, expected more than 1", p.Name, p.Step)
		case !(p.Min > 0 && p.Min <= p.Start && p.Start <= p.Max):
			return fmt.Errorf("tune: %s: start is %v, expected a number above 0, and from %v to %v",
				p.Name, p.Start, p.Min, p.Max)
		}
	}
	return nil
}

// moves returns the directions of a step: along each parameter, then along each pair of parameters.
func moves(n int) (moves [][]int) {
	step := func(i, di, j, dj int) {
		d := make([]int, n)
		d[j] = dj
		d[i] = di
		moves = append(moves, d)
	}
	for i := range n {
		step(i, 1, i, 0)
		step(i, -1, i, 0)
	}
	for i := range n {
		for j := range i {
			for _, d := range [][2]int{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				step(i, d[0], j, d[1])
			}
		}
	}
	return moves
}

// walk is the state of a search. A point has one exponent for each parameter: the number of finest
// steps from the start.
type walk struct {
	Search
	params []Parameter
	f      func([]float64) (float64, error)
	tried  map[string]float64
	moves  [][]int
	at     []int
	best   Trial
	stride int
}

// round tries every move once and repeats a move as long as it helps. It tries moves along two
// parameters only if no move along one parameter has helped.
func (w *walk) round() (moved bool, err error) {
	single := 2 * len(w.params)
	for k, move := range w.moves {
		if k == single && moved {
			return true, nil
		}
		for better := true; better; moved = moved || better {
			if better, err = w.try(w.next(move, w.stride)); err != nil {
				return false, err
			}
		}
	}
	return moved, nil
}

func (w *walk) next(move []int, stride int) []int {
	next := slices.Clone(w.at)
	for i, d := range move {
		next[i] += d * stride
	}
	return next
}

// left returns the number of points that the search will still try if no later point is better.
func (w *walk) left() int {
	points := map[string]bool{}
	for stride := w.stride; stride > 0; stride /= 2 {
		for _, move := range w.moves {
			_, key, inside := w.values(w.next(move, stride))
			if _, known := w.tried[key]; inside && !known {
				points[key] = true
			}
		}
	}
	return len(points)
}

// values returns the parameter values at a point, and a key that identifies these values. The
// result `inside` is false if a value is below Min or above Max.
func (w *walk) values(point []int) (values []float64, key string, inside bool) {
	values = make([]float64, len(point))
	for i, p := range w.params {
		v, ok := p.value(point[i], 1<<w.Refine)
		if !ok {
			return nil, "", false
		}
		values[i] = v
	}
	return values, fmt.Sprint(values), true
}

// try evaluates a point unless it was tried before or exceeds the bounds, and moves to the point if
// its score is better.
func (w *walk) try(point []int) (better bool, err error) {
	values, key, inside := w.values(point)
	if _, known := w.tried[key]; known || !inside {
		return false, nil
	}
	score, err := w.f(values)
	if err != nil {
		return false, err
	}
	if math.IsNaN(score) {
		score = math.Inf(1)
	}
	w.tried[key] = score
	t := Trial{Values: values, Score: score, Best: score < w.best.Score-w.Tolerance ||
		len(w.tried) == 1}
	if t.Best {
		w.at = point
	}
	if t.Left = w.left(); t.Best {
		w.best = t
	}
	if w.Visit != nil {
		w.Visit(t)
	}
	return t.Best && len(w.tried) > 1, nil
}

// value returns Start * Step^(exponent/fine), rounded. The result ok is false if the value is below
// Min or above Max.
func (p Parameter) value(exponent, fine int) (v float64, ok bool) {
	if exponent == 0 {
		return p.Start, true
	}
	v = p.Start * math.Pow(p.Step, float64(exponent)/float64(fine))
	if p.Whole {
		v = math.Round(v)
	}
	v = digits(v)
	return v, v >= p.Min && v <= p.Max
}

// digits rounds a number to three significant digits, for readable settings.
func digits(v float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic(err) // impossible: v was just formatted
	}
	return v
}
