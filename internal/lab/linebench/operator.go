package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// answersGiven are how many answers a simulated operator gives on a log.
var answersGiven = []int{0, 5, 10, 20}

// operator is told of incidents as watch prints them, and answers truthfully on the first of them
// whether one of its lines so far has a label.
type operator struct {
	threshold float64
	answers   int // left

	matters, falseAlarm []incidents.Like
	shown               map[int64]bool // whether an incident that was shown is true
}

// shows reports whether an incident is shown, see watch's own rule.
func (o *operator) shows(i *incidents.Incident) bool {
	like := func(of []incidents.Like) bool {
		for _, l := range of {
			if l.Matches(i) {
				return true
			}
		}
		return false
	}
	if like(o.matters) {
		return true
	}
	return !like(o.falseAlarm) && (i.P <= o.threshold || len(i.Changes) > 0)
}

// told is told of an incident at a line, and reports whether the line belongs to one that is shown.
func (o *operator) told(i *incidents.Incident, labelled bool) bool {
	truth, known := o.shown[i.Number]
	if i.Closed || !known && !o.shows(i) {
		return false
	}
	o.shown[i.Number] = truth || labelled
	if !known && o.answers > 0 {
		o.answers--
		if labelled {
			o.matters = append(o.matters, i.Like())
		} else {
			o.falseAlarm = append(o.falseAlarm, i.Like())
		}
	}
	return true
}

// operated is what an operator sees of some logs.
type operated struct{ shown, true, found, incidents int }

// operate shows a log with labels to an operator.
func operate(log []line, o operator) (sum operated) {
	o.shown = map[int64]bool{}
	m := lines.NewMeter()
	seen := make([]scored, len(log)) // rated 1 where a line belongs to what is shown
	for n, l := range log {
		seen[n] = scored{line: l}
		each := func(line *lines.Line) {
			for i := range line.Incidents {
				if o.told(&line.Incidents[i], l.label != ordinaryLabel) {
					seen[n].p = 1
				}
			}
		}
		for _, b := range []byte(l.text + "\n") {
			m.Add(b, 0, 0, each)
		}
	}
	for _, isTrue := range o.shown {
		sum.shown++
		if isTrue {
			sum.true++
		}
	}
	ratings := make([]float64, len(seen))
	for i := range seen {
		ratings[i] = seen[i].p
	}
	for _, best := range incidentsOf(seen, ratings) {
		sum.incidents++
		sum.found += int(best)
	}
	return sum
}

// printOperated shows the logs of a folder to operators who give some answers each.
func printOperated(w io.Writer, dir string) error {
	paths, err := labelledPaths(dir)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "threshold\tanswers\tshown\ttrue\tprecision\tlabelled incidents found\tof")
	for _, threshold := range rates {
		for _, answers := range answersGiven {
			var all operated
			for _, path := range paths {
				log, err := readLabelled(path)
				if err != nil {
					return err
				}
				one := operate(log, operator{threshold: threshold, answers: answers})
				all.shown, all.true = all.shown+one.shown, all.true+one.true
				all.found, all.incidents = all.found+one.found, all.incidents+one.incidents
			}
			fmt.Fprintf(t, "1/%.0f\t%d\t%d\t%d\t%.2f\t%d\t%d\n", 1/threshold, answers, all.shown,
				all.true, float64(all.true)/float64(all.shown), all.found, all.incidents)
		}
	}
	return t.Flush()
}
