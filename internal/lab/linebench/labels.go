package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

const (
	ordinaryLabel = "-"
	unjudged      = 100 // number of lines at the beginning of a log that are not evaluated
	incidentGap   = 30  // maximum distance between successive lines of an incident, in lines
	incidentFirst = 5   // number of first lines of an incident by which it must be found
	shareOfLines  = 100 // one line in 100 is flagged
)

type finding struct {
	ap float64 // average precision; lines of equal rating form one group
	// hits counts the anomalous lines among the 1 % of lines with the highest ratings. The count is
	// divided by its maximum, so that a perfect method has 1.
	hits float64
	// average precision of incidents, rated by their first incidentFirst lines
	incidentAP float64
	incidents  float64 // share of incidents rated above 99 % of the ordinary lines
}

func (f *finding) add(other finding) {
	f.ap += other.ap
	f.hits += other.hits
	f.incidentAP += other.incidentAP
	f.incidents += other.incidents
}

func (f finding) over(n int) finding {
	x := float64(n)
	return finding{f.ap / x, f.hits / x, f.incidentAP / x, f.incidents / x}
}

func ratingsOf(log []scored, m method) []float64 {
	ratings := make([]float64, len(log))
	for i := range log {
		ratings[i] = log[i].ratings[m]
	}
	return ratings
}

func find(log []scored, ratings []float64) (f finding) {
	var order []int
	var ordinaries []float64
	anomalous := 0.
	for i := unjudged; i < len(log); i++ {
		order = append(order, i)
		if log[i].label == ordinaryLabel {
			ordinaries = append(ordinaries, ratings[i])
		} else {
			anomalous++
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ratings[b], ratings[a]) })
	most := math.Ceil(float64(len(order)) / shareOfLines)
	found, at := 0., 0.
	for from := 0; from < len(order); {
		to, here := from, 0.
		for ; to < len(order) && ratings[order[to]] == ratings[order[from]]; to++ {
			if log[order[to]].label != ordinaryLabel {
				here++
			}
		}
		found += here
		f.ap += here / anomalous * found / float64(to)
		at += here * max(0, min(1, (most-float64(from))/float64(to-from)))
		from = to
	}
	f.hits = at / min(anomalous, most)

	slices.Sort(ordinaries)
	best := incidentsOf(log, ratings)
	slices.SortFunc(best, func(a, b float64) int { return cmp.Compare(b, a) })
	limit := math.Ceil(float64(len(ordinaries)) / shareOfLines)
	for i, rating := range best {
		stranger := above(ordinaries, rating)
		f.incidentAP += float64(i+1) / (float64(i+1) + stranger) / float64(len(best))
		if stranger < limit {
			f.incidents += 1 / float64(len(best))
		}
	}
	return f
}

// above counts the numbers greater than x in a sorted list. Numbers equal to x count half.
func above(sorted []float64, x float64) float64 {
	from, found := slices.BinarySearch(sorted, x)
	to := from
	if found {
		to, _ = slices.BinarySearch(sorted, math.Nextafter(x, math.Inf(1)))
	}
	return float64(2*len(sorted)-from-to) / 2
}

// incidentsOf returns, for each incident, the highest rating of its first incidentFirst lines. An
// incident consists of nearby lines with equal labels.
func incidentsOf(log []scored, ratings []float64) (best []float64) {
	type incident struct{ at, last, lines int }
	open := map[string]*incident{}
	for i := unjudged; i < len(log); i++ {
		label := log[i].label
		if label == ordinaryLabel {
			continue
		}
		of := open[label]
		if of == nil || i-of.last > incidentGap {
			of = &incident{at: len(best)}
			open[label], best = of, append(best, math.Inf(-1))
		}
		of.last = i
		if of.lines++; of.lines <= incidentFirst {
			best[of.at] = max(best[of.at], ratings[i])
		}
	}
	return best
}

type labeled struct {
	sets              int
	found             [methods]finding
	lines, ordinaries int
	told, alarms      int
	flagged           [len(rates)]int
}

func labeledPaths(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "log.txt"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s has no subfolder that contains a file log.txt", dir)
	}
	return paths, err
}

// printLabeled evaluates the labeled logs below dir. The parameter `words` names a file with words
// of trouble, such as "error". The value "default" means the default list, "" no list.
func printLabeled(w io.Writer, dir, words string) error {
	paths, err := labeledPaths(dir)
	if err != nil {
		return err
	}
	trouble, err := readTrouble(words)
	if err != nil {
		return err
	}
	var all labeled
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "P of each set\tlines\tAP\thits\tincident AP\tinc@"+
		"\tat 1/1000\tat 1/100\ttold\tof these false")
	for _, path := range paths {
		log, err := readLabeled(path)
		if err != nil {
			return err
		}
		one := judge(score(log, trouble))
		one.row(t, filepath.Base(filepath.Dir(path)))
		all.add(&one)
	}
	all.row(t, "mean")
	fmt.Fprintf(t, "\nmethod, mean of %d sets\t\tAP\thits\tincident AP\tinc@\n", all.sets)
	for m := range methods {
		f := all.found[m].over(all.sets)
		fmt.Fprintf(t, "%s\t\t%.3f\t%.3f\t%.3f\t%.3f\n", m, f.ap, f.hits, f.incidentAP, f.incidents)
	}
	return t.Flush()
}

// row prints the results of method P, which rates a line by its probability. Flagged lines and
// printed incidents are numbers per 1,000 lines.
func (l *labeled) row(w io.Writer, name string) {
	f := l.found[ratingP].over(l.sets)
	share := func(n, of int) float64 { return 1000 * float64(n) / float64(of) }
	fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\n", name, l.lines,
		f.ap, f.hits, f.incidentAP, f.incidents,
		share(l.flagged[0], l.ordinaries), share(l.flagged[1], l.ordinaries),
		share(l.told, l.lines), share(l.alarms, l.lines))
}

// readTrouble returns the words of trouble in the file with this name. The name "default" means the
// default list, "" no words.
func readTrouble(name string) (list string, err error) {
	switch name {
	case "", "default":
		return map[string]string{"default": lines.TroubleDefault}[name], nil
	}
	text, err := os.ReadFile(name)
	if err == nil {
		list, err = lines.TroubleWords(string(text))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

func judge(log []scored) (l labeled) {
	l.sets = 1
	for m := range methods {
		l.found[m] = find(log, ratingsOf(log, m))
	}
	for _, s := range log[unjudged:] {
		l.lines++
		ordinary := s.label == ordinaryLabel
		if s.told {
			l.told++
		}
		if !ordinary {
			continue
		}
		l.ordinaries++
		if s.told {
			l.alarms++
		}
		for i, rate := range rates {
			if s.p <= rate {
				l.flagged[i]++
			}
		}
	}
	return l
}

func (l *labeled) add(other *labeled) {
	l.sets += other.sets
	for m := range methods {
		l.found[m].add(other.found[m])
	}
	for i := range rates {
		l.flagged[i] += other.flagged[i]
	}
	l.lines += other.lines
	l.ordinaries += other.ordinaries
	l.told += other.told
	l.alarms += other.alarms
}

// readLabeled reads a log, and its labels from the file labels.txt in the same folder.
func readLabeled(path string) ([]line, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	beside := filepath.Join(filepath.Dir(path), "labels.txt")
	labels, err := os.ReadFile(beside)
	if err != nil {
		return nil, err
	}
	texts, marks := split(string(text)), split(string(labels))
	if len(texts) != len(marks) || len(texts) <= unjudged {
		return nil, fmt.Errorf("%s has %d labels for %d lines, expected one label per line, and "+
			"more than %d lines", beside, len(marks), len(texts), unjudged)
	}
	log := make([]line, len(texts))
	for i := range log {
		log[i] = line{text: texts[i], label: marks[i], incident: -1}
	}
	return log, nil
}
