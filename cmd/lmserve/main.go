// Command lmserve serves, scores, completes, evaluates and trains adaptive
// language models. One file a command; wiring only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
)

// Exit codes. 1 is for everything that has none of its own.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError marks errors in how the command was called.
type usageError struct{ error }

func main() {
	// The first signal asks for a clean end, the second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "lmserve:", err)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lmserve",
		Short: "A language-model server whose model learns the stream it serves",
		Long: `lmserve hosts a Transformer-XL with Sparse-MetaNet fast weights. Each session
keeps fast weights of its own, rewritten sparsely from the loss gradient of every
chunk of text it has scored: the model learns the stream while it serves it.

Every command works with the embedded model; --model takes a file instead.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true // "completion" beside "complete" would only confuse
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see '%s --help')", err, c.CommandPath())}
	})
	root.AddCommand(newServe(), newKeys(), newSessions(), newScore(), newComplete(), newTrain(), newEval(), newTune(), newBench(), newVerify(), newVersion())
	return root
}

// printJSON prints a value for people and programs.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// modelFlags are what every command that runs a model has.
type modelFlags struct {
	path      string
	threads   int
	precision kernel.Precision
}

func (f *modelFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "model", "", "file of weights (default: the embedded model)")
	c.Flags().IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "threads; results do not depend on it")
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
	if f.threads < 1 || f.threads > maxThreads {
		return usageError{fmt.Errorf("--threads is %d, expected 1 to %d", f.threads, maxThreads)}
	}
	return nil
}

const maxThreads = 256
