// Command onlinecifar compares Sparse-MetaNet with fine-tuning on Online Cifar (Sparse Meta
// Networks, section 4.1.2). Online Cifar is a stream of tasks. Each task assigns 5 labels to
// classes of images, and some of these classes change from task to task.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/sync/errgroup"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	data := flag.String("data", "", "directory of CIFAR-100's files (default: generated images)")
	quick := flag.Bool("quick", false, "a small run that takes seconds")
	out := flag.String("out", "", "directory for the figure (default: none)")
	seed := flag.Uint64("seed", 1, "first seed")
	seeds := flag.Int("seeds", 2, "number of seeds")
	workers := flag.Int("workers", 2, "number of concurrent runs")
	only := flag.String("only", "", "job: meta, online or pretrained (default: all)")
	flag.IntVar(&o.narrow, "narrow", 0,
		"divisor for the number of filters (default: 1 with -data, 8 without)")
	flag.IntVar(&o.rounds, "rounds", 2400, "rounds of training")
	flag.IntVar(&o.every, "every", 600, "number of training rounds between two measurements on "+
		"the development stream")
	flag.IntVar(&o.devTasks, "dev", 6, "number of tasks in the development stream")
	flag.IntVar(&o.tasks, "tasks", 12, "number of tasks in each test stream (400 in the paper)")
	flag.BoolVar(&o.moving, "moving", false, "in tests, normalize by moving averages over the "+
		"stream, not by each batch's averages")
	flag.Float64Var(&o.rate, "rate", 1e-3, "Adam's learning rate in training")
	flag.Float64Var(&o.out, "out-scale", 0.1, "factor that multiplies the meta-learners' outputs")
	flag.Float64Var(&o.metaRate, "meta-rate", 3e-3, "Adam's learning rate for the meta-weights")
	estimate := flag.Bool("estimate", false, "only measure the time of a round, on random images "+
		"of CIFAR's size")
	flag.Parse()
	if *quick {
		o.narrow, o.rounds, o.every, o.devTasks, o.tasks, *seeds = 16, 40, 20, 1, 2, 1
	}
	debug.SetGCPercent(400) // a round allocates megabytes of temporary memory
	o.log = log.Printf
	if err := run(o, *data, *out, *only, *seed, *seeds, *workers, *estimate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options, data, out, only string, seed uint64, seeds, workers int, estimate bool) error {
	if o.narrow == 0 {
		o.narrow = 8
		if data != "" || estimate {
			o.narrow = 1
		}
	}
	if estimate {
		return timeRounds(o)
	}
	s, name := generate(1), "generated images"
	if data != "" {
		var err error
		if s, err = readCIFAR(data); err != nil {
			return err
		}
		name = "CIFAR-100"
	}
	rows, err := runAll(o, s, only, seed, seeds, workers)
	if err != nil {
		return err
	}
	fmt.Print(table(name, o, rows))
	if out != "" {
		return figure(out, rows)
	}
	return nil
}

// runAll runs every job with every seed on the given number of workers. The rows are in the order
// of the seeds.
func runAll(o options, s *set, only string, seed uint64, seeds, workers int) ([]row, error) {
	type job struct {
		name string
		run  func() ([]row, error)
	}
	var jobs []job
	for i := range seeds {
		t := newTrainer(o, s, seed+uint64(i))
		all := []job{{"meta", t.meta}, {"online", t.online}, {"pretrained", t.pretrained}}
		for _, j := range all {
			if only == "" || only == j.name {
				jobs = append(jobs, j)
			}
		}
	}
	results := make([][]row, len(jobs))
	var all errgroup.Group
	all.SetLimit(workers)
	for i, j := range jobs {
		all.Go(func() (err error) {
			if results[i], err = j.run(); err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(results...), nil
}
