package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

var answersGiven = []int{0, 5, 10, 20}

// operator simulates a user of `lmserve watch`, who judges the first incidents shown. The user
// judges an incident important if it is shown at an anomalous line, otherwise a false alarm.
type operator struct {
	threshold float64
	answers   int

	matters, falseAlarm []incidents.Like
	// by incident number: whether a shown incident has an anomalous line
	shown map[int64]bool
}

// shows reports whether an incident is shown to the operator, by the rules of `lmserve watch`.
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

// told handles an incident that a line has opened or joined. The parameter `labeled` is true if the
// line is anomalous. The result is true if the incident is shown.
func (o *operator) told(i *incidents.Incident, labeled bool) bool {
	truth, known := o.shown[i.Number]
	if i.Closed || !known && !o.shows(i) {
		return false
	}
	o.shown[i.Number] = truth || labeled
	if !known && o.answers > 0 {
		o.answers--
		if labeled {
			o.matters = append(o.matters, i.Like())
		} else {
			o.falseAlarm = append(o.falseAlarm, i.Like())
		}
	}
	return true
}

// operated counts incidents: the shown ones, the true ones among them, the labeled ones that were
// found, and all labeled ones.
type operated struct{ shown, true, found, incidents int }

func operate(log []line, o operator) (sum operated) {
	o.shown = map[int64]bool{}
	m := lines.NewMeter()
	seen := make([]scored, len(log)) // p is 1 if the line belongs to a shown incident
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

func printOperated(w io.Writer, dir string) error {
	paths, err := labeledPaths(dir)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "threshold\tanswers\tshown\ttrue\tprecision\tlabeled incidents found\tof")
	for _, threshold := range rates {
		for _, answers := range answersGiven {
			var all operated
			for _, path := range paths {
				log, err := readLabeled(path)
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
