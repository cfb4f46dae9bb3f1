package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/handler"
)

type logFlags struct{ method, name string }

// Values of the flag --log-sessions that are not names of methods.
const (
	logsDefault = "default"
	logsNone    = "none"
)

func (f *logFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.method, "log-sessions", logsDefault,
		"method of the sessions that /v1/logs and Loki's push API create on first use: "+
			"counts (uses no neural network),\n"+
			"another method, default (the model's method), or none (no sessions are created)")
	flags.StringVar(&f.name, "log-session-name", intake.NameDefault,
		"template of the session name of a log record; {a|b|c} means the attribute or label "+
			"a, otherwise b, otherwise the text c")
}

func (f *logFlags) sessions() (s handler.LogSessions, err error) {
	if s.Name, err = intake.ParseTemplate(f.name); err != nil {
		return s, usagef("--log-session-name: %w", err)
	}
	known := append([]string{logsDefault, logsNone}, stream.AllMethods()...)
	switch {
	case !slices.Contains(known, f.method):
		return s, usagef("--log-sessions is %q, expected one of %v", f.method, known)
	case f.method == session.MethodCounts:
		s.Settings = session.Settings{"method": f.method, "companion": false}
	case f.method != logsDefault && f.method != logsNone:
		s.Settings = session.Settings{"method": f.method}
	}
	s.Make = f.method != logsNone
	return s, nil
}
