package main

import (
	"cmp"
	"math"
	"slices"
)

type outcome struct {
	lines, flagged [len(kindNames)]int
	incidents      int
	found          int
	// sum over found incidents of the lines from the first line to the first flagged line
	lag             int
	precisions      []float64
	recalls         []float64
	falseAlarmShare []float64
}

// measure compares flagged lines with injected lines, from index `from` to the end of the log.
func measure(log []scored, from int, flagged func(i int) bool) (o outcome) {
	first, found := map[int]int{}, map[int]bool{}
	for i := from; i < len(log); i++ {
		l := log[i]
		o.lines[l.kind]++
		if _, known := first[l.incident]; !known && l.incident >= 0 {
			first[l.incident] = i
		}
		if !flagged(i) {
			continue
		}
		o.flagged[l.kind]++
		if l.incident >= 0 && !found[l.incident] {
			found[l.incident] = true
			o.lag += i - first[l.incident]
		}
	}
	o.incidents, o.found = len(first), len(found)
	hits, injected := o.hits()
	if all := hits + o.flagged[ordinary]; all > 0 {
		o.precisions = []float64{float64(hits) / float64(all)}
	}
	if injected > 0 {
		o.recalls = []float64{float64(hits) / float64(injected)}
	}
	o.falseAlarmShare = []float64{float64(o.flagged[ordinary]) / float64(o.lines[ordinary])}
	return o
}

// hits returns how many injected lines were flagged, and how many lines were injected.
func (o *outcome) hits() (flagged, injected int) {
	for k := foreign; k <= wrong; k++ {
		flagged, injected = flagged+o.flagged[k], injected+o.lines[k]
	}
	return flagged, injected
}

func (o *outcome) add(other outcome) {
	for k := range o.lines {
		o.lines[k] += other.lines[k]
		o.flagged[k] += other.flagged[k]
	}
	o.incidents += other.incidents
	o.found += other.found
	o.lag += other.lag
	o.precisions = append(o.precisions, other.precisions...)
	o.recalls = append(o.recalls, other.recalls...)
	o.falseAlarmShare = append(o.falseAlarmShare, other.falseAlarmShare...)
}

// spread returns the mean and the standard deviation, or NaN without values.
func spread(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return mean, math.Sqrt(deviation)
}

// threshold returns the rating that exactly `alarms` ordinary lines from index `from` on exceed, or
// fewer if ratings are equal. The threshold needs the whole log.
func threshold(log []scored, from int, ratings []float64, alarms int) float64 {
	var all []float64
	for i := from; i < len(log); i++ {
		if log[i].kind == ordinary {
			all = append(all, ratings[i])
		}
	}
	slices.Sort(all)
	return all[len(all)-1-min(alarms, len(all)-1)]
}

// top returns the indices of the n lines with the largest ratings. It ignores lines before index
// `from`.
func top(from int, ratings []float64, n int) map[int]bool {
	order := make([]int, 0, len(ratings)-from)
	for i := from; i < len(ratings); i++ {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ratings[b], ratings[a]) })
	chosen := map[int]bool{}
	for _, i := range order[:min(n, len(order))] {
		chosen[i] = true
	}
	return chosen
}
