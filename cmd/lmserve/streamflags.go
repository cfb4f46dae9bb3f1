package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
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
	flags.BoolVar(&f.static, "static", false,
		"the network alone: --method static; with --companion beside counts")
	settingFlags(c, stream.Table, f.asked)
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the masks")
}

// settingFlags gives a command a flag for every row that has one, which puts what is given into
// the values.
func settingFlags(c *cobra.Command, rows setting.Table[stream.Settings], into setting.Values) {
	for _, row := range rows {
		if row.NoFlag {
			continue
		}
		flag := c.Flags().VarPF(row.Flag(into), row.FlagName(), "", row.FlagUsage())
		if row.IsBool() {
			flag.NoOptDefVal = "true"
		}
	}
}

// chosen are the settings that the flags ask for. A setting of another method than --method's is
// refused. A method with the name that eval gives it beside a companion has one.
func (f *streamFlags) chosen() (setting.Values, error) {
	if f.static {
		if method, given := f.asked["method"]; given && method != stream.Static {
			err := errors.New("--static is --method static: expected one of them")
			return nil, usageError{err}
		}
		f.asked["method"] = stream.Static
	}
	if method, given := f.asked["method"].(string); given {
		method, with := strings.CutSuffix(method, eval.WithCompanion)
		if with && f.asked["companion"] == false {
			return nil, usagef("--method %s%s has a companion: expected no --companion=false",
				method, eval.WithCompanion)
		}
		if with {
			f.asked["method"], f.asked["companion"] = method, true
		}
		return f.asked, f.checkEffect(method)
	}
	return f.asked, nil
}

// request asks for a session with the settings that the flags ask for, by their names in the
// contract.
func (f *streamFlags) request() (r client.SessionRequest, err error) {
	asked, err := f.chosen()
	if err != nil || len(asked) == 0 {
		return r, err
	}
	text, err := json.Marshal(asked)
	if err == nil {
		err = json.Unmarshal(text, &r.Settings)
	}
	return r, err
}

// checkEffect refuses a setting that a stream of the method would not look at.
func (f *streamFlags) checkEffect(method string) error {
	for _, row := range stream.Table {
		_, given := f.asked[row.Name]
		if given && len(row.Methods) > 0 && !slices.Contains(row.Methods, method) {
			return usagef("--%s has no effect with method %s, expected method %s",
				row.FlagName(), method, strings.Join(row.Methods, " or "))
		}
	}
	return nil
}
