// Command lmserve serves, scores, completes, evaluates and trains adaptive language models. Every
// command has a file of its own, which parses its flags and calls the packages that do the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes. exitFailure is for every error that has no code of its own.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	// The first signal asks for a clean end, the second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program, and returns its exit code.
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
	// A command "completion" beside "complete" would only confuse.
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see '%s --help')", err, c.CommandPath())}
	})
	root.AddCommand(newServe(), newKeys(), newSessions(), newBackup(), newRestore(), newScore(), newComplete(), newTrain(), newEval(), newTune(), newBench(), newVerify(), newVersion())
	return root
}
