package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/setting"
	"github.com/lmserve/lmserve/internal/stream"
)

// streamFlags choose how a stream adapts: a flag for every row of stream.Table, but for those
// without one. Settings that no flag gives keep the model's defaults for the method.
type streamFlags struct {
	asked  setting.Values
	static bool
	seed   uint64
}

func (f *streamFlags) register(c *cobra.Command) {
	f.asked = setting.Values{}
	flags := c.Flags()
	flags.BoolVar(&f.static, "static", false, "do not adapt: --method static")
	for _, row := range stream.Table {
		if row.NoFlag {
			continue
		}
		flag := flags.VarPF(row.Flag(f.asked), row.FlagName(), "", row.FlagUsage())
		if row.IsBool() {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the masks")
}

// settings are those of the model, with what the flags ask for in their place.
func (f *streamFlags) settings(m *model.Model) (stream.Settings, error) {
	if f.static {
		if _, given := f.asked["method"]; given {
			err := errors.New("--static is --method static: expected one of them")
			return stream.Settings{}, usageError{err}
		}
		f.asked["method"] = stream.Static
	}
	set, err := stream.With(m, f.asked)
	set.Seed = f.seed
	var wrong *setting.Error
	switch {
	case errors.As(err, &wrong):
		flag := setting.FlagName(wrong.Name)
		return set, usageError{fmt.Errorf("--%s is %s, expected %s", flag, wrong.Found, wrong.Want)}
	case err != nil:
		return set, usageError{err}
	}
	return set, nil
}
