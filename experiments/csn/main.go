// Command csn tests rapid adaptation to new words. A model sees one to three sentences with each of
// five words. Then the model must find which of these words is missing in another sentence. The
// command compares Conditionally Shifted Neurons (Munkhdalai et al., 2018) with the original
// MetaNet, Sparse-MetaNet, Matching Networks, and a model that does not adapt.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

type options struct {
	data, test, out, methods string
	limit, seeds, threads    int
	seed                     uint64
	budget                   budget
	rules                    rules
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("csn: ")
	o := options{rules: rules{Least: 6, Most: 100, Known: 5, HeldOut: 1000}}
	flag.StringVar(&o.data, "data", "", "folder of *.txt files to train on; none: a generated text")
	flag.StringVar(&o.test, "test", "", "folder of files to test on; none: 1000 words of -data")
	flag.StringVar(&o.out, "out", "", "folder for the figure; none: no figure")
	flag.StringVar(&o.methods, "methods", "", "methods, separated by commas; none: all")
	flag.IntVar(&o.limit, "limit", 150000, "maximum number of bytes read from each file")
	flag.IntVar(&o.seeds, "seeds", 3, "number of seeds")
	flag.IntVar(&o.threads, "threads", runtime.NumCPU(), "number of seeds computed in parallel")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed")
	flag.IntVar(&o.budget.Steps, "steps", 2000, "training tasks")
	flag.Float64Var(&o.budget.Rate, "rate", .002, "Adam's initial learning rate")
	quick := flag.Bool("quick", false, "few tasks and one seed")
	flag.Parse()
	o.budget.Tests, o.budget.Epochs, o.budget.Size = 400, 3, 32
	if *quick {
		o.seeds, o.budget.Steps, o.budget.Tests, o.budget.Epochs = 1, 150, 50, 1
	}
	if err := o.main(); err != nil {
		log.Fatal(err)
	}
}

func (o options) main() error {
	chosen, err := choose(o.methods)
	if err != nil {
		return err
	}
	train, test, err := o.texts()
	if err != nil {
		return err
	}
	results := make([][]result, len(chosen))
	for i := range results {
		results[i] = make([]result, o.seeds)
	}
	var all errgroup.Group
	all.SetLimit(o.threads)
	for s := range o.seeds {
		all.Go(func() error { return o.one(chosen, train, test, s, results) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	fmt.Print(table(chosen, results))
	if o.out != "" {
		return draw(o.out, chosen, results)
	}
	return nil
}

// one runs the chosen methods with the seed number s. All methods use the same words, embeddings
// and test tasks.
func (o options) one(chosen []method, train, test [][]string, s int, results [][]result) error {
	seed := o.seed + uint64(s)
	c := build(train, test, o.rules, seed)
	log.Printf("seed %d: %d words known, %d training words, %d test words, %d sentences",
		seed, c.Vocabulary, len(c.Train), len(c.Test), len(c.Sentences))
	embeddings, places := pretrain(c, o.budget.Size, o.budget.Epochs, seed)
	for i, m := range chosen {
		r, err := run(m, c, embeddings, places, o.budget, seed)
		if err != nil {
			return err
		}
		results[i][s] = r
		log.Printf("seed %d: %s %.3f, losses %.3f", seed, m.Name, r.Accuracy, r.Losses)
	}
	return nil
}

// texts reads the training and test texts from folders. Without a training folder, texts generates
// a text; without a test folder, test is nil.
func (o options) texts() (train, test [][]string, err error) {
	if o.data == "" {
		return toy(12000, o.seed), nil, nil
	}
	if train, err = read(o.data, o.limit); err != nil || o.test == "" {
		return train, nil, err
	}
	test, err = read(o.test, o.limit)
	return train, test, err
}

// choose returns the methods in a comma-separated list of names, or all methods if the list is
// empty.
func choose(names string) ([]method, error) {
	if names == "" {
		return methods, nil
	}
	var known []string
	for _, m := range methods {
		known = append(known, m.Name)
	}
	var chosen []method
	for name := range strings.SplitSeq(names, ",") {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("-methods: found %q, want one or more of %s", name,
				strings.Join(known, ","))
		}
		chosen = append(chosen, methods[at])
	}
	return chosen, nil
}
