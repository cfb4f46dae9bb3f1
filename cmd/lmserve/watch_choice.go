package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/watch"
)

// topMax bounds --top.
const topMax = 100_000

// lineChoice says which lines are printed: those that are strange enough, or the strangest ones.
type lineChoice struct {
	rate      string
	threshold string
	top       int
}

// register gives a command the flags. Without any of them lines are printed that are as strange as
// RateDefault.
func (f *lineChoice) register(c *cobra.Command) {
	c.Flags().StringVar(&f.rate, "rate", watch.RateDefault,
		"print lines that are stranger than all but so many ordinary ones")
	f.registerOthers(c)
}

// registerOthers gives a command the flags but --rate.
func (f *lineChoice) registerOthers(c *cobra.Command) {
	c.Flags().StringVar(&f.threshold, "threshold", "",
		"the same as a probability: print lines whose p is at most this, as 0.001")
	c.Flags().IntVar(&f.top, "top", 0, "print so many of the strangest lines at the end, "+
		"the strangest first (default: lines as they come)")
}

// check gives the largest p of a line that is printed or, with --top, that is flagged; 0 if all
// lines are printed.
func (f *lineChoice) check(c *cobra.Command) (threshold float64, err error) {
	var given []string
	for _, name := range []string{"rate", "threshold", "top"} {
		if c.Flags().Changed(name) && (name != "rate" || f.rate != "") {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		err := fmt.Errorf("%s and %s were given, expected one of them", given[0], given[1])
		return 0, usageError{err}
	}
	if c.Flags().Changed("top") && (f.top < 1 || f.top > topMax) {
		return 0, usageError{fmt.Errorf("--top is %d, expected 1 to %d", f.top, topMax)}
	}
	flag, text := "rate", f.rate
	if f.threshold != "" {
		flag, text = "threshold", f.threshold
	}
	if text == "" {
		return 0, nil
	}
	if threshold, err = watch.ParseRate(text); err != nil {
		return 0, usageError{fmt.Errorf("--%s is %w", flag, err)}
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
