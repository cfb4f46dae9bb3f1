// Command wcst plays the Wisconsin card sorting test (Sparse Meta Networks, section 4.1.1). An
// agent sorts cards by a hidden rule, which it learns from rewards. When the agent has found the
// rule, the rule changes. The command compares Sparse-MetaNet with agents that learn by gradients
// alone: offline (a new agent for every rule) and online (one agent throughout). It draws figures 3
// and 5 of the paper.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// rates are the learning rates of the paper's grid search.
var rates = []float64{0.0001, 0.0003, 0.0005, 0.001, 0.003}

// methods are the rows of the table. A grid search chooses the learning rate of each.
var methods = []method{
	{Name: "Sparse-MetaNet", Solver: "adam", Fast: true},
	{Name: "offline Adam", Solver: "adam", Offline: true},
	{Name: "offline RMSProp", Solver: "rmsprop", Offline: true},
	{Name: "online Adam", Solver: "adam"},
	{Name: "online RMSProp", Solver: "rmsprop"},
	{Name: "MetaNet with slots", Solver: "adam", Slots: true},
}

func main() {
	log.SetFlags(0)
	seeds := flag.Int("seeds", 10, "runs of each method")
	tasks := flag.Int("tasks", 30, "rules in a run")
	gridSeeds := flag.Int("grid-seeds", 3, "runs of each learning rate in the grid, with other "+
		"seeds than the main runs")
	gridTasks := flag.Int("grid-tasks", 30, "rules in a run of the grid")
	out := flag.String("out", ".", "folder for figure3.svg and figure5.svg")
	quick := flag.Bool("quick", false, "2 seeds, 6 rules, a grid of 1 seed and 4 rules")
	flag.Parse()
	if *quick {
		*seeds, *tasks, *gridSeeds, *gridTasks = 2, 6, 1, 4
	}
	if err := compare(*seeds, *tasks, *gridSeeds, *gridTasks, *out); err != nil {
		log.Fatal(err)
	}
}

func compare(seeds, tasks, gridSeeds, gridTasks int, out string) error {
	results := make([][][]task, len(methods))
	chosen := append([]method(nil), methods...)
	for i := range chosen {
		rate, err := search(chosen[i], gridSeeds, gridTasks)
		if err != nil {
			return err
		}
		chosen[i].Rate = rate
		if results[i], err = runs(chosen[i], tasks, 1, seeds); err != nil {
			return err
		}
	}
	fmt.Println("| method | rate | updates, rules 2-10 | rules 11 on | perseveration errors, " +
		"rules 2-10 | rules 11 on | rules not found | restarts |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|")
	for i, m := range chosen {
		early, late := tally(results[i], 1, 10), tally(results[i], 10, tasks)
		all := tally(results[i], 0, tasks)
		fmt.Printf("| %s | %g | %s | %s | %s | %s | %d of %d | %d |\n", m.Name, m.Rate,
			early.updates, late.updates, early.errors, late.errors, all.failed, seeds*tasks,
			all.restarts)
	}
	if err := drawFigure(filepath.Join(out, "figure3.svg"), chosen[:3], results[:3]); err != nil {
		return err
	}
	return drawFigure(filepath.Join(out, "figure5.svg"), chosen[3:], results[3:])
}

// slotsGridTasks is the number of tasks per grid-search run for the method with slots. The number
// is small because this method's updates are slow and most of its runs fail.
const slotsGridTasks = 6

// search returns the learning rate of the grid that needs the fewest updates. A rule that is not
// found counts as giveUp updates.
func search(m method, seeds, tasks int) (best float64, err error) {
	if m.Slots {
		seeds, tasks = 1, min(tasks, slotsGridTasks)
	}
	fewest := math.Inf(1)
	for _, m.Rate = range rates {
		r, err := runs(m, tasks, 1_000_000, seeds)
		if err != nil {
			return 0, err
		}
		mean := tally(r, 0, tasks).updates.mean
		fmt.Fprintf(os.Stderr, "%s: rate %g: %.0f updates a rule\n", m.Name, m.Rate, mean)
		if mean < fewest {
			best, fewest = m.Rate, mean
		}
	}
	return best, nil
}

func runs(m method, tasks int, firstSeed, seeds int) ([][]task, error) {
	results := make([][]task, seeds)
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range seeds {
		all.Go(func() (err error) {
			results[i], err = run(m, tasks, uint64(firstSeed+i))
			return err
		})
	}
	return results, all.Wait()
}

type spread struct{ mean, deviation float64 }

func (s spread) String() string { return fmt.Sprintf("%.0f ± %.0f", s.mean, s.deviation) }

// A summary has the means and standard deviations over seeds for a range of rules, and the numbers
// of failed tasks and of restarts.
type summary struct {
	updates, errors  spread
	failed, restarts int
}

func tally(results [][]task, lo, hi int) (s summary) {
	var updates, errors []float64
	for _, run := range results {
		u, e := 0., 0.
		for _, t := range run[min(lo, len(run)):min(hi, len(run))] {
			u += float64(t.Updates)
			e += float64(t.Errors)
			s.restarts += t.Restarts
			if t.Failed {
				s.failed++
			}
		}
		n := float64(max(1, min(hi, len(run))-lo))
		updates, errors = append(updates, u/n), append(errors, e/n)
	}
	s.updates, s.errors = spreadOf(updates), spreadOf(errors)
	return s
}

func spreadOf(x []float64) (s spread) {
	for _, v := range x {
		s.mean += v / float64(len(x))
	}
	for _, v := range x {
		s.deviation += (v - s.mean) * (v - s.mean) / float64(max(1, len(x)-1))
	}
	s.deviation = math.Sqrt(s.deviation)
	return s
}
