package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session"
)

// modelFlags are what every command that runs a model has.
type modelFlags struct {
	path      string
	threads   int
	precision kernel.Precision
}

func (f *modelFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "model", "", "file of the model (default: the embedded model)")
	c.Flags().IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "threads to compute with; results do not depend on their number")
	precisionFlag(c, &f.precision)
}

func (f *modelFlags) load() (*model.Model, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	load := model.Default
	if f.path != "" {
		load = func() (*model.Model, error) { return model.Load(f.path) }
	}
	m, err := load()
	if err != nil {
		return nil, err
	}
	m.Arithmetic = kernel.Arithmetic{Precision: f.precision}
	return m, nil
}

func (f *modelFlags) check() error {
	if f.threads < 1 || f.threads > session.ThreadsMax {
		return usageError{fmt.Errorf("--threads is %d, expected 1 to %d", f.threads, session.ThreadsMax)}
	}
	return nil
}
