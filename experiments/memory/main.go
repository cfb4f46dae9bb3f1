// Command memory compares networks with external memory, an LSTM, and fast weights by
// Sparse-MetaNet. The tasks are to copy lists and to recall associations.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

type options struct {
	out            string
	seed           uint64
	seeds, vectors int
	sequences      int // training sequences; 0 means each task's default
	tests          int
	rate           float64 // learning rate; 0 means each method's default
	p              float64
	models, tasks  string // comma-separated names; "" means all
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "directory for figures (default: no figures)")
	flag.Uint64Var(&o.seed, "seed", 1, "first random seed")
	flag.IntVar(&o.seeds, "seeds", 3, "number of runs of each model, with consecutive seeds")
	flag.IntVar(&o.sequences, "sequences", 0,
		"number of training sequences per run (default: 8000 for the copy task, 24000 for recall)")
	flag.IntVar(&o.tests, "tests", 50, "number of test sequences per length")
	flag.IntVar(&o.vectors, "vectors", 1, "number of 6-bit vectors per item of the recall task")
	flag.Float64Var(&o.rate, "rate", 0, "learning rate (default: each model's own)")
	flag.Float64Var(&o.p, "p", 1, "probability that a pair of key and value writes a fast weight")
	flag.StringVar(&o.models, "models", "", "models, separated by commas (default: all)")
	flag.StringVar(&o.tasks, "tasks", "", "tasks, separated by commas (default: copy and recall)")
	quick := flag.Bool("quick", false,
		"one run of 400 sequences for each model: it takes seconds, but the models learn little")
	flag.Parse()
	if *quick {
		o.seeds, o.sequences, o.tests = 1, 400, 10
	}
	// saves time: the heap is small, so garbage collections can be rare
	debug.SetGCPercent(1000)
	if err := run(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(o options, w, progress io.Writer) error {
	if o.seeds < 1 || o.vectors < 1 || o.tests < 1 || o.sequences < 0 {
		return fmt.Errorf("found %d seeds, %d vectors, %d tests, %d sequences; "+
			"want at least 1, 1, 1, 0",
			o.seeds, o.vectors, o.tests, o.sequences)
	}
	for _, k := range tasks(o.vectors) {
		if !listed(o.tasks, k.name) {
			continue
		}
		if o.sequences > 0 {
			k.sequences = max(o.sequences, windows)
		}
		var jobs []job
		var all []rows
		for _, m := range methods(o.p) {
			if !listed(o.models, m.name) {
				continue
			}
			if o.rate > 0 {
				m.rates = map[string]float64{k.name: o.rate}
			}
			all = append(all, rows{method: m.name})
			for i := range o.seeds {
				jobs = append(jobs, job{k, m, o.seed + uint64(i), o.tests})
			}
		}
		results, err := trainAll(jobs, progress)
		if err != nil {
			return err
		}
		for i := range all {
			all[i].seeds = results[i*o.seeds:][:o.seeds]
		}
		table(w, k, all)
		if o.out == "" {
			continue
		}
		if err := figure(o.out, k, all); err != nil {
			return err
		}
	}
	return nil
}

func listed(list, name string) bool {
	return list == "" || strings.Contains(","+list+",", ","+name+",")
}
