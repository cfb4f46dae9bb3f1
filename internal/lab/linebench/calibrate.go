package main

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// promised are the probabilities whose frequency a calibration counts.
var promised = []float64{
	1. / 2, 1. / 5, 1. / 10, 1. / 20, 1. / 50, 1. / 100, 1. / 200, 1. / 500, 1. / 1000,
}

// calibration counts the lines of a text. For each promised probability it also counts the lines
// whose rating is at most this probability.
type calibration struct {
	lines int
	below [9]int
}

// calibrate rates an unchanged text, and counts the lines after the warm-up.
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

// print writes each count divided by the expected count. 1 is exact; 2 means twice as many lines as
// promised.
func (c *calibration) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%-28s %6d", name, c.lines)
	for i, rate := range promised {
		fmt.Fprintf(w, " %7.2f", float64(c.below[i])/(rate*float64(c.lines)))
	}
	fmt.Fprintln(w)
}
