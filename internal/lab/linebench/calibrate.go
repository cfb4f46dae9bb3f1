package main

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// promised are probabilities p. If ratings are calibrated, a share p of ordinary lines has a rating
// of at most p.
var promised = []float64{
	1. / 2, 1. / 5, 1. / 10, 1. / 20, 1. / 50, 1. / 100, 1. / 200, 1. / 500, 1. / 1000,
}

// calibration counts lines and, for each promised probability p, the lines whose rating is at most
// p.
type calibration struct {
	lines int
	below [9]int
}

// calibrate rates the lines of a log without injected lines. It counts only lines after the
// warm-up.
func calibrate(log []string) (c calibration) {
	rating := lines.NewRating()
	for i, text := range log {
		p, _, _, _ := rating.Take([]byte(text[:min(len(text), lines.TextMax)]))
		if i < lines.WarmUp {
			continue
		}
		c.lines++
		for k, rate := range promised {
			if p <= rate {
				c.below[k]++
			}
		}
	}
	return c
}

func (c *calibration) add(other calibration) {
	c.lines += other.lines
	for i := range c.below {
		c.below[i] += other.below[i]
	}
}

// print writes, for each promised probability, the counted lines divided by the expected number of
// lines.
func (c *calibration) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%-28s %6d", name, c.lines)
	for i, rate := range promised {
		fmt.Fprintf(w, " %7.2f", float64(c.below[i])/(rate*float64(c.lines)))
	}
	fmt.Fprintln(w)
}
