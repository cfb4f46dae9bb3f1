package main

import (
	"fmt"
	"io"
)

// rates are the shares of a log's ordinary lines that a method may flag.
var rates = [...]float64{1. / 1000, 1. / 100}

// comparison sums the outcomes of all methods over variants of one log. Each variant has incidents
// injected with another random seed.
type comparison struct {
	lines, seeds int
	// hindsight has an outcome for each rate and method. Its threshold is chosen afterwards, so
	// that exactly this share of the ordinary lines is flagged. ranked has the outcome of flagging
	// the k lines with the largest ratings, where k is the number of injected lines.
	hindsight [len(rates)][methods]outcome
	ranked    [methods]outcome
	// online has an outcome for each rate: lines with a probability of at most the rate are
	// flagged. Flagging by probability needs no later lines, so it also works while the log is
	// written.
	online [len(rates)]outcome
}

func compare(log []string, seeds int) *comparison {
	c := &comparison{lines: len(log), seeds: seeds}
	for seed := range seeds {
		c.add(score(inject(log, uint64(seed)), ""), start(len(log)))
	}
	return c
}

// add adds the outcomes of all methods for a log. Only lines from index `from` on count.
func (c *comparison) add(log []scored, from int) {
	ordinaries, strangers := 0, 0
	for _, l := range log[from:] {
		if l.kind == ordinary {
			ordinaries++
		} else {
			strangers++
		}
	}
	for at := range methods {
		ratings := ratingsOf(log, at)
		for i, rate := range rates {
			limit := threshold(log, from, ratings, int(rate*float64(ordinaries)))
			above := func(i int) bool { return ratings[i] > limit }
			c.hindsight[i][at].add(measure(log, from, above))
		}
		chosen := top(from, ratings, strangers)
		c.ranked[at].add(measure(log, from, func(i int) bool { return chosen[i] }))
	}
	for i, rate := range rates {
		c.online[i].add(measure(log, from, func(i int) bool { return log[i].p <= rate }))
	}
}

func (c *comparison) print(w io.Writer, name string) {
	o := &c.ranked[0]
	_, injected := o.hits()
	fmt.Fprintf(w, "\n%s: %d lines; %d logs made from it with %d incidents of %d lines in all\n",
		name, c.lines, c.seeds, o.incidents, injected)
	fmt.Fprintf(w, "(%d foreign, %d with a changed field, %d out of time)\n", o.lines[foreign],
		o.lines[field], o.lines[wrong])
	for i, rate := range rates {
		fmt.Fprintf(w, "\nWith hindsight: the threshold that flags 1 of %.0f ordinary lines\n",
			1/rate)
		table(w, &c.hindsight[i])
	}
	fmt.Fprintf(w, "\nThe k lines with the highest ratings, k being the number of injected lines\n")
	table(w, &c.ranked)
	fmt.Fprintf(w, "\nWithout hindsight: flagged if the probability is at most the rate\n")
	head(w)
	for i, rate := range rates {
		row(w, fmt.Sprintf("at most 1/%.0f", 1/rate), c.online[i])
	}
}

func table(w io.Writer, outcomes *[methods]outcome) {
	head(w)
	for m := range methods {
		row(w, m.String(), outcomes[m])
	}
}

func head(w io.Writer) {
	fmt.Fprintf(w, "%-28s %-12s %-12s %8s %6s %6s %6s %6s %8s\n", "", "precision", "recall",
		"foreign", "field", "time", "found", "lag", "alarms")
}

// row prints mean and standard deviation of precision and recall over the logs, and the recall of
// each kind of injected line. Then it prints the share of incidents found, their mean delay in
// lines, and the share of ordinary lines flagged.
func row(w io.Writer, name string, o outcome) {
	precision, precisionSpread := spread(o.precisions)
	recall, recallSpread := spread(o.recalls)
	alarms, _ := spread(o.falseAlarmShare)
	fmt.Fprintf(w, "%-28s %4.2f ± %4.2f  %4.2f ± %4.2f  %8.2f %6.2f %6.2f %6.2f %6.2f %7.2f%%\n",
		name, precision, precisionSpread, recall, recallSpread, o.recall(foreign), o.recall(field),
		o.recall(wrong), float64(o.found)/float64(o.incidents), float64(o.lag)/float64(o.found),
		100*alarms)
}

func (o *outcome) recall(k kind) float64 { return float64(o.flagged[k]) / float64(o.lines[k]) }
