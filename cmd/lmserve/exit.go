package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// Exit codes of every command. A command that is interrupted by a signal exits with exitSignal plus
// the signal's number, as in shells: 130 for Ctrl-C, 143 for SIGTERM. A command that always runs
// until a signal, such as serve, exits with 0.
const (
	// the work failed, or a check found damage or differences
	exitFailure = 1
	// a wrong command, flag, argument, environment variable or configuration
	exitUsage  = 2
	exitSignal = 128
)

// errFindings is the error of a check or a replay that has printed damage or differences.
var errFindings = errors.New("damage or differences were found; see the lines above")

func findings(n int) error {
	if n > 0 {
		return errFindings
	}
	return nil
}

const exitHelp = `Exit codes:
  0         success; also if a signal ends a command that has no other end, such as serve
  1         failure, or damage or differences found
  2         wrong command, flag, argument, variable or configuration file; nothing was done
  130, 143  interrupted by Ctrl-C or SIGTERM`

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// signalError is the cause of a context canceled by a signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.signal) }

// signalContext returns a context that the first signal cancels, with a signalError as cause. The
// second signal kills the process.
func signalContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals)
		number, _ := got.(syscall.Signal)
		cancel(signalError{number})
	}()
	return ctx
}

// exitCode returns the exit code for a command's error, and the error to print. If a signal ended
// the command, the context's cause is a signalError.
func exitCode(ctx context.Context, err error) (int, error) {
	var usage usageError
	var ended signalError
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &ended),
		errors.As(err, &ended): // a signal can also end the reading of a flag's file
		return exitSignal + int(ended.signal), interrupted(err, ended)
	case errors.As(err, &usage):
		return exitUsage, err
	case errors.Is(err, context.Canceled):
		return exitSignal + int(syscall.SIGINT), err
	}
	return exitFailure, err
}

// interrupted returns an error that names the signal if err is only a canceled context or request.
// Otherwise it returns err.
func interrupted(err error, ended signalError) error {
	var request *url.Error
	if err.Error() == context.Canceled.Error() || errors.As(err, &request) {
		return ended
	}
	return err
}

// unlessEnded returns err, or nil if err only reports that the context was canceled. It is for work
// that runs until its context is canceled.
func unlessEnded(ctx context.Context, err error) error {
	var ended signalError
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.As(err, &ended)) {
		return nil
	}
	return err
}

// settingError adds the flag's name to the error of a setting that is out of range.
func settingError(err error) error {
	var wrong *setting.Error
	if !errors.As(err, &wrong) {
		return usageError{err}
	}
	return usagef("--%s is %s, expected %s", setting.FlagName(wrong.Name), wrong.Found,
		wrong.Want)
}

// flagError adds the flag's name to the error of a field that a server refused. Flags and fields
// have the same names.
func flagError(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Field == "" || refused.Expected == "" {
		return err
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		flag := setting.FlagName(strings.TrimPrefix(refused.Field, "settings."))
		if flag == "id" || flag == "name" {
			flag = "session"
		}
		return usagef("--%s is %s, expected %s", flag, refused.Found, refused.Expected)
	}
	return err
}
