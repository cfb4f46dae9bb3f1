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

// streamFlags has the flags that control how a stream adapts. A setting that is not given on the
// command line keeps the model's default for the method.
type streamFlags struct {
	asked  setting.Values
	static bool
	seed   uint64
}

func (f *streamFlags) register(c *cobra.Command) {
	f.asked = setting.Values{}
	flags := c.Flags()
	flags.BoolVar(&f.static, "static", false,
		"--method static: the slow weights alone; with --companion, mixed with counts")
	settingFlags(c, stream.Table, f.asked)
	flags.Uint64Var(&f.seed, "seed", 0,
		"seed of the masks that select which fast weights an update writes")
}

// settingFlags registers a flag for every row of the table, except rows with NoFlag. The parameter
// `into` receives the values from the command line.
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

// chosen returns the settings that the flags set. It returns an error if a setting has no effect
// with the method. A method such as static+companion sets both the method and the companion.
func (f *streamFlags) chosen() (setting.Values, error) {
	if f.static {
		if method, given := f.asked["method"]; given && method != stream.Static {
			err := errors.New("--static and --method are both given, expected one of them")
			return nil, usageError{err}
		}
		f.asked["method"] = stream.Static
	}
	if method, given := f.asked["method"].(string); given {
		method, with := strings.CutSuffix(method, eval.WithCompanion)
		if with && f.asked["companion"] == false {
			return nil, usagef("--method %s%s needs a companion: remove --companion=false",
				method, eval.WithCompanion)
		}
		if with {
			f.asked["method"], f.asked["companion"] = method, true
		}
		return f.asked, f.checkEffect(method)
	}
	return f.asked, nil
}

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
