package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/watch"
)

const topMax = 100_000

// lineChoice says which lines are printed: those that are strange enough, or the strangest ones.
type lineChoice struct {
	threshold string
	top       int
}

// register gives a command the flags. Lines are printed that are as strange as a rate, all if it is
// "", unless the flags say otherwise.
func (f *lineChoice) register(c *cobra.Command, rate string) {
	c.Flags().StringVar(&f.threshold, "threshold", rate, "print lines that are stranger than all "+
		"but so many ordinary ones,\nas a fraction, 1/1000, or a probability, 0.001")
	c.Flags().IntVar(&f.top, "top", 0, "print so many of the strangest lines at the end, "+
		"the strangest first (default: lines as they come)")
}

// check gives the largest p of a line that is printed or, with --top, that is flagged; 0 if all
// lines are printed.
func (f *lineChoice) check(c *cobra.Command) (threshold float64, err error) {
	top := c.Flags().Changed("top")
	if top && c.Flags().Changed("threshold") {
		err := errors.New("--threshold and --top were given, expected one of them")
		return 0, usageError{err}
	}
	if top && (f.top < 1 || f.top > topMax) {
		return 0, usagef("--top is %d, expected 1 to %d", f.top, topMax)
	}
	if f.threshold == "" {
		return 0, nil
	}
	if threshold, err = watch.ParseRate(f.threshold); err != nil {
		return 0, usagef("--threshold is %w", err)
	}
	return threshold, nil
}

// list keeps the strangest lines; nil if lines are printed as they come.
func (f *lineChoice) list() *watch.Top {
	if f.top == 0 {
		return nil
	}
	return &watch.Top{Size: f.top}
}
