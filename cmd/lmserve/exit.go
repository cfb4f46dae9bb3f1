package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/setting"
)

// Exit codes of every command. A command that a signal has ended before it was done exits with
// exitSignal plus the number of the signal, as shells report it: 130 for Ctrl-C, 143 for SIGTERM. A
// command that goes on until a signal ends it, as serve does, is done then.
const (
	exitFailure = 1 // the work failed, or it found what it looks for: damage, or numbers that differ
	exitUsage   = 2 // the call is wrong: a command, a flag, an argument, a variable, a configuration
	exitSignal  = 128
)

// exitHelp says what the exit codes are.
const exitHelp = `Exit codes: 0 when the work is done; 1 when it failed, or found damage or differences; 2 when the
command, a flag, an argument, a variable or the configuration file is wrong, and nothing was done;
130 or 143 when Ctrl-C or SIGTERM ended it before it was done. What goes on until a signal ends it,
such as serve, exits with 0 then.`

// usageError marks an error in how the command was called.
type usageError struct{ error }

// Unwrap gives what is wrong.
func (e usageError) Unwrap() error { return e.error }

// signalError is the cause of a context that a signal has ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.signal) }

// signalContext returns a context that the first signal ends, with a signalError as its cause. The
// second signal kills the process.
func signalContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals)
		number, _ := got.(syscall.Signal) // os.Interrupt and SIGTERM are such
		cancel(signalError{number})
	}()
	return ctx
}

// exitCode is the exit code of a command that has ended with an error, and the error to print. Work
// that ended because its context did is told apart by the context's cause.
func exitCode(ctx context.Context, err error) (int, error) {
	var usage usageError
	var ended signalError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &usage):
		return exitUsage, err
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &ended),
		errors.As(err, &ended):
		return exitSignal + int(ended.signal), interrupted(err, ended)
	case errors.Is(err, context.Canceled):
		return exitSignal + int(syscall.SIGINT), err
	}
	return exitFailure, err
}

// interrupted says which signal it was where the error says no more than that there was one.
func interrupted(err error, ended signalError) error {
	if err == context.Canceled { // an error around it says more
		return ended
	}
	return err
}

// usageArgs makes the errors of a command's arguments usage errors, which name the command's help.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil || errors.As(err, &usageError{}) {
			return err
		}
		return usageError{fmt.Errorf("%w (see '%s --help')", err, c.CommandPath())}
	}
}

// exactly is cobra.ExactArgs with an error that says what arguments were expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("found %s, expected %s", setting.Count(len(args), "argument"), what)
		}
		return nil
	}
}

// atLeastOne wants one argument or more.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("found no argument, expected %s", what)
		}
		return nil
	}
}

// subcommand makes a command of a group of commands: alone it shows its help, and any argument is
// the name of a command that does not exist.
func subcommand(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w, expected maybe %s", err, strings.Join(near, ", "))
		}
		return err
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}
