// Package tune finds settings by search on a logarithmic grid, and with it those of the methods that sparse-meta is compared with.
package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Parameter is a positive number, searched for among Start times whole powers of Step, to three digits, from Min to Max.
type Parameter struct {
	Name     string
	Start    float64
	Step     float64 // above 1
	Min, Max float64
	Whole    bool // a whole number
}

// Trial is a point that was tried. The score of one that gives no number is infinite.
type Trial struct {
	Values []float64 // one a parameter
	Score  float64
	Best   bool // better than all before
}

// Search says how to search.
type Search struct {
	// Refine is how often the grid is made finer, each step then being the square root of what it was.
	Refine int
	// Tolerance is the improvement below which a step is not worth taking: without it a flat objective would be followed to the end.
	Tolerance float64
	// Visit, if set, sees every trial.
	Visit func(Trial)
}

// ErrNoScore is returned if neither the start, nor a smaller first parameter, nor a neighbour of the start gives a number.
var ErrNoScore = errors.New("no setting tried gives a score")

// Minimise looks for the values at which f is least. From the start it walks along one parameter after the other for as long as a step
// makes f less, beyond any edge but Min and Max; where no step along one parameter does, it looks at those along two. f is called once a
// point. Its error ends the search. If the start gives no number, the search begins at the largest smaller value of the first parameter that
// does: of a rate that is too large all neighbours may be, too.
func (s Search) Minimise(params []Parameter, f func(values []float64) (float64, error)) (Trial, error) {
	if err := check(params); err != nil {
		return Trial{}, err
	}
	w := &walk{Search: s, params: params, f: f, tried: map[string]float64{}, best: Trial{Score: math.Inf(1)}}
	w.stride = 1 << s.Refine
	w.at = make([]int, len(params))
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
	moves := moves(len(params))
	for ; w.stride > 0; w.stride /= 2 {
		for moved := true; moved; {
			var err error
			if moved, err = w.round(moves); err != nil {
				return Trial{}, err
			}
		}
	}
	if math.IsInf(w.best.Score, 1) {
		return w.best, fmt.Errorf("tune: %w: start at other values than %v", ErrNoScore, w.best.Values)
	}
	return w.best, nil
}

func check(params []Parameter) error {
	for _, p := range params {
		switch {
		case !(p.Step > 1):
			return fmt.Errorf("tune: %s: step is %v, expected more than 1", p.Name, p.Step)
		case !(p.Min > 0 && p.Min <= p.Start && p.Start <= p.Max):
			return fmt.Errorf("tune: %s: start is %v, expected a number from %v to %v, above 0", p.Name, p.Start, p.Min, p.Max)
		}
	}
	return nil
}

// moves are the directions of a step: along each parameter, then along each two.
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

// walk is a search under way. A point of the grid is its exponents, in units of the finest step.
type walk struct {
	Search
	params []Parameter
	f      func([]float64) (float64, error)
	tried  map[string]float64 // scores by values
	at     []int
	best   Trial // at
	stride int
}

// round tries every move once, each for as long as it helps, those along two parameters only if none along one did.
func (w *walk) round(moves [][]int) (moved bool, err error) {
	single := 2 * len(w.params)
	for k, move := range moves {
		if k == single && moved {
			return true, nil
		}
		for better := true; better; moved = moved || better {
			next := slices.Clone(w.at)
			for i, d := range move {
				next[i] += d * w.stride
			}
			if better, err = w.try(next); err != nil {
				return false, err
			}
		}
	}
	return moved, nil
}

// try evaluates a point that was not tried before and lies within the bounds, and goes there if it is better.
func (w *walk) try(point []int) (better bool, err error) {
	values := make([]float64, len(point))
	for i, p := range w.params {
		v, ok := p.value(point[i], 1<<w.Refine)
		if !ok {
			return false, nil
		}
		values[i] = v
	}
	key := fmt.Sprint(values)
	if _, known := w.tried[key]; known {
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
	t := Trial{Values: values, Score: score, Best: score < w.best.Score-w.Tolerance || len(w.tried) == 1}
	if t.Best {
		w.best, w.at = t, point
	}
	if w.Visit != nil {
		w.Visit(t)
	}
	return t.Best && len(w.tried) > 1, nil
}

// value is the parameter at an exponent in units of 1/fine; not ok beyond its bounds.
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

// digits rounds to three significant ones: settings that people read.
func digits(v float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic(err) // it has just been formatted
	}
	return v
}
