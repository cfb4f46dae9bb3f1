package main

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func commands(t *testing.T) (all [][]string) {
	everyCommand(newRoot(), func(c *cobra.Command) {
		if c.HasParent() && c.Name() != "help" {
			all = append(all, commandWords(c))
		}
	})
	require.Greater(t, len(all), 20)
	return all
}

func misused(t *testing.T, args ...string) {
	t.Helper()
	stdout, stderr, code := lmserve("", args...)
	require.Equal(t, exitUsage, code, "%q: %s%s", args, stdout, stderr)
	require.Regexp(t, `^lmserve: \S.*\n$`, stderr, "%q: one line", args)
	require.Empty(t, stdout, "%q", args)
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	for _, words := range commands(t) {
		misused(t, append(words, "--no-such-flag")...)
		c, err := findCommand(newRoot(), words)
		require.NoError(t, err)
		if c.HasSubCommands() {
			misused(t, append(words, "no-such-command")...)
			continue
		}
		flagsOf(c).VisitAll(func(f *pflag.Flag) {
			if kind := f.Value.Type(); strings.HasPrefix(kind, "string") || !configurable(c, f) {
				return
			}
			misused(t, append(words, "--"+f.Name+"=garbage")...)
			if c.PersistentPreRunE == nil {
				t.Setenv(variable(append(words, f.Name)...), "garbage")
				misused(t, argumentsFor(c, words)...)
				os.Unsetenv(variable(append(words, f.Name)...))
			}
		})
	}
	for _, args := range [][]string{
		{"no-such-command"}, {"help", "no-such-command"}, {"help", "sessions", "nothing"},
		{"completion"}, {"completion", "no-such-shell"}, {"completion", "bash", "zsh"}, {"config"},
		{"config", "keys"},
		{"config", "nothing"}, {"version", "x"}, {"serve", "x"}, {"complete", "x"}, {"train", "x"},
		{"train"}, {"train", "--data", "x"}, {"eval", "x"}, {"eval"}, {"tune", "x"}, {"tune"},
		{"bench", "x"}, {"verify"}, {"backup"}, {"backup", "a", "b"}, {"restore", "a"},
		{"keys", "add"}, {"keys", "add", "a", "b"}, {"keys", "list", "x"}, {"keys", "revoke"},
		{"sessions", "list", "x"}, {"sessions", "show"}, {"sessions", "check", "x"},
		{"sessions", "rescue", "x"}, {"sessions", "compact", "x"}, {"sessions", "export"},
		{"sessions", "import"}, {"sessions", "delete"}, {"sessions", "list", "--data-dir", "none"},
	} {
		misused(t, args...)
	}
}

func argumentsFor(c *cobra.Command, words []string) []string {
	for n := range 3 {
		args := strings.Fields(strings.Repeat("x ", n))
		if c.Args == nil || c.Args(c, args) == nil {
			return append(words, args...)
		}
	}
	return words
}

func TestUnknownCommandsNameNearOnes(t *testing.T) {
	_, stderr, code := lmserve("", "scor")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `unknown command "scor" for "lmserve", did you mean "score"?`)
}

func TestHelpAndVersionAreExitCode0(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--help"}, {"help"}, {"help", "sessions", "replay"}, {"--version"}, {"version"},
		{"keys"}, {"sessions"}, {"completion", "bash"}, {"completion", "zsh"}, {"serve", "--help"},
	} {
		// a faulty configuration must not matter to these commands
		t.Setenv(configVariable, "no-such-file")
		stdout, stderr, code := lmserve("", args...)
		require.Zero(t, code, "%q: %s", args, stderr)
		require.NotEmpty(t, stdout, "%q", args)
		require.Empty(t, stderr, "%q", args)
	}
	require.Contains(t, must(t, "", "--help"), "completion ")
}

func TestFailuresAndSignals(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"verify", none}, {"restore", none, none + "2"}, {"score", none}, {"eval", "--data", none},
		{"sessions", "list", "--data-dir", none}, {"sessions", "import", none},
		{"keys", "revoke", "a"},
	} {
		_, stderr, code := lmserve("", args...)
		require.Equal(t, exitFailure, code, "%q: %s", args, stderr)
	}
	for _, number := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(signalError{number})
		code, err := exitCode(ctx, ctx.Err())
		require.Equal(t, 128+int(number), code)
		require.EqualError(t, err, "ended by a signal ("+number.String()+")")
		code, _ = exitCode(ctx, context.Cause(ctx))
		require.Equal(t, 128+int(number), code)
		request := &url.Error{Op: "Post", URL: "http://localhost/v1", Err: context.Cause(ctx)}
		_, err = exitCode(ctx, request)
		require.EqualError(t, err, "ended by a signal ("+number.String()+")")
		require.NoError(t, unlessEnded(ctx, request))
		require.Error(t, unlessEnded(ctx, io.ErrUnexpectedEOF))
		require.Error(t, unlessEnded(t.Context(), context.Canceled))
		// a signal ended the reading of a flag's file
		code, _ = exitCode(ctx, usageError{context.Canceled})
		require.Equal(t, 128+int(number), code)
	}
}

// Errors escape control characters of file names and contents, so that these cannot control the
// terminal.
func TestErrorsControlNoTerminal(t *testing.T) {
	var stderr bytes.Buffer
	name := "missing\x1b[2J\u009b\u202e.txt"
	require.NotZero(t, run(t.Context(), []string{"score", name}, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), `missing\x1b[2J\u009b\u202e.txt`)
	require.Equal(t, "größe\t1\n", printable("größe\t1\n"))
}
