package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/arithmetic/changes"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

const (
	changedLines = 6000 // maximum lines read from a log
	// maximum lines from the end of an injected change to a report that counts
	after      = 20
	driftLines = 1000 // minimum length of a drift, in lines
	// reports within this many lines of a report in the unchanged log do not count
	sameReport = 8
)

// readOrdinary reads the first lines of a log. If the log has labels, it skips lines that are not
// labeled as ordinary.
func readOrdinary(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	log := split(string(text))
	marks, err := os.ReadFile(filepath.Join(filepath.Dir(path), "labels.txt"))
	if err == nil {
		all, labels := log, split(string(marks))
		log = nil
		for i := range min(len(all), len(labels)) {
			if labels[i] == ordinaryLabel {
				log = append(log, all[i])
			}
		}
	} else if !os.IsNotExist(err) {
		return nil, err
	}
	return log[:min(len(log), changedLines)], checkLength(path, log)
}

// found has the number of injected changes of one kind and strength. For each reported change it
// has the delay in lines.
type found struct {
	injected int
	delays   []int
}

type changesFound struct {
	order []string
	of    map[string]*found
	logs  int
	lines int
	told  int
	kinds map[changes.Kind]int
}

func printChanges(w io.Writer, paths []string) error {
	sum := changesFound{of: map[string]*found{}, kinds: map[changes.Kind]int{}}
	for _, path := range paths {
		log, err := readOrdinary(path)
		if err != nil {
			return err
		}
		sum.ordinary(log)
		sum.injected(log)
	}
	return sum.print(w)
}

func (s *changesFound) ordinary(log []string) {
	s.logs++
	s.lines += len(log)
	m, incidents := lines.NewMeter(), told{}
	for _, l := range log {
		for _, b := range []byte(l + "\n") {
			m.Add(b, 0, 0, func(l *lines.Line) {
				if incidents.take(l) {
					s.told++
				}
			})
		}
	}
	for _, c := range reports(log) {
		s.kinds[c.Kind]++
	}
}

func reports(log []string) (all []changes.Change) {
	d := changes.New()
	for _, l := range log {
		d.Take([]byte(l), func(c *changes.Change) { all = append(all, *c) })
	}
	return all
}

func (s *changesFound) injected(log []string) {
	usual := reports(log)
	for _, c := range injectChanges(log) {
		name := c.kind + "\t" + c.strength
		of := s.of[name]
		if of == nil {
			of = &found{}
			s.of[name] = of
			s.order = append(s.order, name)
		}
		of.injected++
		for _, r := range reports(c.log) {
			at := int(r.Line)
			known := slices.ContainsFunc(usual, func(u changes.Change) bool {
				return u.Kind == r.Kind && int(u.Line) > at-sameReport &&
					int(u.Line) < at+sameReport
			})
			fits := (c.kind == "silence") == (r.Kind == changes.Silence)
			if at > c.from && at <= c.to && !known && fits {
				of.delays = append(of.delays, at-c.from-1)
				break
			}
		}
	}
}

func (s *changesFound) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "injected\tstrength\tof\tfound\tmedian delay, lines")
	slices.Sort(s.order)
	for _, name := range s.order {
		of := s.of[name]
		slices.Sort(of.delays)
		delay := "-"
		if n := len(of.delays); n > 0 {
			delay = fmt.Sprint(of.delays[n/2])
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%s\n", name, of.injected,
			float64(len(of.delays))/float64(of.injected), delay)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nnothing injected, %d logs of %d lines; in 1,000 lines:\n", s.logs, s.lines)
	per := func(n int) float64 { return 1000 * float64(n) / float64(s.lines) }
	fmt.Fprintf(w, "incidents %.2f; changes", per(s.told))
	for k := changes.Surge; k <= changes.Format; k++ {
		fmt.Fprintf(w, " %s %.2f", k, per(s.kinds[k]))
	}
	fmt.Fprintln(w)
	return nil
}

// changed is a log with an injected change. The change begins after line `from`. A report counts up
// to line `to`.
type changed struct {
	kind, strength string
	log            []string
	from, to       int
}

// changedAt are the positions of injected changes, as fractions of a log.
var changedAt = [...]float64{.55, .75}

// injectChanges returns copies of a log, each with one injected change. Random choices have fixed
// seeds, so the result depends only on the log.
func injectChanges(log []string) (all []changed) {
	for seed, part := range changedAt {
		at := int(part * float64(len(log)))
		g := &changer{log: log, at: at, rand: rand.New(rand.NewPCG(uint64(seed), 41))}
		g.surges()
		g.floods()
		g.silences()
		g.numbers()
		g.drifts()
		g.fields()
		g.formats()
		all = append(all, g.all...)
	}
	return all
}

type changer struct {
	log  []string
	at   int
	rand *rand.Rand
	all  []changed
}

// add adds a copy of the log in which `change` replaces each line from g.at to before `to`. If no
// line differs, add does nothing.
func (g *changer) add(kind, strength string, to int, change func(i int, l string) []string) {
	c := changed{kind: kind, strength: strength, log: slices.Clone(g.log[:g.at]), from: g.at}
	count := 0
	for i := g.at; i < to; i++ {
		now := change(i, g.log[i])
		if len(now) != 1 || now[0] != g.log[i] {
			count++
		}
		c.log = append(c.log, now...)
	}
	c.to = len(c.log) + after
	c.log = append(c.log, g.log[to:]...)
	if count > 0 {
		g.all = append(g.all, c)
	}
}

// surgeSizes are pairs: the share of changed lines, in units of 0.5 %, and the duration in lines.
var surgeSizes = [...][2]int{{5, 500}, {20, 100}, {20, 500}, {100, 20}, {100, 100}, {100, 500}}

// surges makes logs in which a new line, a rare line or a new value of a field suddenly becomes
// frequent.
func (g *changer) surges() {
	rare := rareLine(g.log[:g.at])
	value := valueField(g.log[:g.at])
	for _, size := range surgeSizes {
		share, length := min(.6, .005*float64(size[0])), size[1]
		strength := fmt.Sprintf("%.3g %% of %d lines", 100*share, length)
		if g.at+length > len(g.log) {
			continue
		}
		end := g.at + length
		g.add("surge of a new line", strength, end, func(i int, l string) []string {
			if g.rand.Float64() >= share {
				return []string{l}
			}
			return []string{stampOf(l) + fmt.Sprintf(
				" upstream pool exhausted, rejecting request %d", g.rand.IntN(90000)), l}
		})
		if rare != "" {
			g.add("surge of a rare line", strength, end, func(i int, l string) []string {
				if g.rand.Float64() >= share {
					return []string{l}
				}
				return []string{stampOf(l) + rare[len(stampOf(rare)):], l}
			})
		}
		if value != nil {
			g.add("surge of a value", strength, end, func(i int, l string) []string {
				if g.rand.Float64() >= share {
					return []string{l}
				}
				return []string{value.set(l, value.strange)}
			})
		}
	}
}

// floods makes logs in which one address suddenly replaces the addresses of 30 or 60 % of the
// lines.
func (g *changer) floods() {
	last, n := "", 0
	for _, l := range g.log[:g.at] {
		if a := addressPattern.FindString(l); a != "" {
			last = a
			n++
		}
	}
	if 2*n <= g.at {
		return
	}
	for _, by := range [][2]string{{"a new address", "198.18.44.91"}, {"a known address", last}} {
		kind, who := "flood of "+by[0], by[1]
		for _, share := range []float64{.3, .6} {
			for _, length := range []int{100, 500} {
				strength := fmt.Sprintf("%.0f %% of %d lines", 100*share, length)
				if g.at+length > len(g.log) {
					continue
				}
				g.add(kind, strength, g.at+length, func(i int, l string) []string {
					if g.rand.Float64() < share {
						l = addressPattern.ReplaceAllString(l, who)
					}
					return []string{l}
				})
			}
		}
	}
}

// silences makes logs with a line that recurs about every 20 or 60 lines until g.at, and then
// stops.
func (g *changer) silences() {
	for _, every := range []int{20, 60} {
		if g.at < 14*every || len(g.log)-g.at < 4*every {
			continue
		}
		c := changed{
			kind: "silence", strength: fmt.Sprintf("of what came every %d lines", every),
		}
		next := every / 2
		for i, l := range g.log {
			if i == next && i < g.at {
				c.log = append(c.log, stampOf(l)+fmt.Sprintf(" probe[81]: heartbeat ok, queue %d",
					i%50))
				c.from = len(c.log)
				next += every*3/4 + g.rand.IntN(every/2)
			}
			c.log = append(c.log, l)
		}
		c.to = c.from + 4*every
		g.all = append(g.all, c)
	}
}

func (g *changer) numbers() {
	field := numberField(g.log[:g.at])
	if field == nil {
		return
	}
	for _, times := range []float64{10, 100} {
		for _, most := range []int{1, 5, 50} {
			n := 0
			end := len(g.log)
			for i, l := range g.log[g.at:] {
				if n == most {
					end = g.at + i
					break
				}
				if field.matches(l) {
					n++
				}
			}
			g.add("number", fmt.Sprintf("%.0f times as large in %d lines", times, most), end,
				func(i int, l string) []string { return []string{field.times(l, times)} })
		}
	}
}

// drifts makes logs in which the share of a value, or a number, grows slowly until the end.
func (g *changer) drifts() {
	if len(g.log)-g.at < driftLines {
		return
	}
	grown := func(i int, from, to float64) float64 {
		return from + (to-from)*float64(i-g.at)/float64(len(g.log)-g.at)
	}
	if value := valueField(g.log[:g.at]); value != nil {
		for _, share := range [][2]float64{{.002, .04}, {.01, .05}, {.01, .1}, {.05, .25}} {
			before := *g
			before.log = slices.Clone(g.log)
			for i, l := range before.log[:g.at] {
				if g.rand.Float64() < share[0] {
					before.log[i] = value.set(l, value.strange)
				}
			}
			before.all = nil
			before.add("drift of a share", fmt.Sprintf("%.1f to %.0f %%", 100*share[0],
				100*share[1]),
				len(g.log), func(i int, l string) []string {
					if g.rand.Float64() < grown(i, share[0], share[1]) {
						l = value.set(l, value.strange)
					}
					return []string{l}
				})
			g.all = append(g.all, before.all...)
		}
	}
	if field := numberField(g.log[:g.at]); field != nil {
		for _, times := range []float64{2, 4} {
			g.add("drift of a number", fmt.Sprintf("to %.0f times as large", times), len(g.log),
				func(i int, l string) []string {
					return []string{field.times(l,
						grown(i, 1, times))}
				})
		}
	}
}

func (g *changer) fields() {
	if field := numberField(g.log[:g.at]); field != nil {
		for _, empty := range []string{"NaN", "-", "null"} {
			g.add("number becomes empty", empty, len(g.log),
				func(i int, l string) []string { return []string{field.set(l, empty)} })
		}
	}
	names, json := fieldNames(g.log[:g.at])
	if len(names) < 2 {
		return
	}
	last := names[len(names)-1]
	g.add("value becomes empty", "", len(g.log), func(i int, l string) []string {
		return []string{emptied(l, last)}
	})
	g.add("field goes missing", "", len(g.log), func(i int, l string) []string {
		return []string{without(l, last)}
	})
	for _, share := range []float64{1, .1} {
		g.add("new field", fmt.Sprintf("in %.0f %% of lines", 100*share), len(g.log),
			func(i int, l string) []string {
				if g.rand.Float64() < share {
					l = with(l, "retry_count", g.rand.IntN(5), json)
				}
				return []string{l}
			})
	}
}

func (g *changer) formats() {
	g.add("new format", "logfmt", len(g.log), func(i int, l string) []string {
		return []string{"app=worker stamp=\"" + stampOf(l) + "\" text=\"" + l[len(stampOf(l)):] +
			"\""}
	})
	g.add("new format", "bars between words", len(g.log), func(i int, l string) []string {
		return []string{strings.ReplaceAll(l, " ", " | ")}
	})
}
