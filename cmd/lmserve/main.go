// Command lmserve serves, scores, completes, evaluates and trains adaptive language models. Every
// command has its own file, which parses flags and calls the packages that do the work.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // roots for systems without any, such as our image
)

func main() {
	os.Exit(run(signalContext(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if _, file := stderr.(*os.File); !file {
		stderr = &lockedWriter{w: stderr} // progress reports and the command both write to stderr
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	code, err := exitCode(ctx, err)
	if err != nil {
		fmt.Fprintln(stderr, "lmserve:", printable(fmt.Sprint(explained(c, err))))
	}
	return code
}

// newRoot makes the tree of commands. Every run needs a new tree, because a tree stores the values
// of flags.
func newRoot() *cobra.Command {
	root := subcommand(&cobra.Command{
		Use:   "lmserve",
		Short: "A language-model server whose model learns the stream it serves",
		Long: `lmserve hosts a Transformer-XL with Sparse-MetaNet fast weights. Each session has its
own fast weights. After each chunk of scored text, an update rewrites a few of them from
the gradient of the loss: the model learns the stream while it serves it.

Every command works with the default model, which is embedded. --model selects another
by file, or by a name that 'lmserve models' lists.

` + configurationHelp + "\n\n" + exitHelp,
		Example: `  journalctl | lmserve score
  lmserve serve --config lmserve.yaml
  lmserve config serve`,
		Version:           buildVersion(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: configure,

		SuggestionsMinimumDistance: 2,
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see '%s --help')", err, c.CommandPath())
	})
	root.PersistentFlags().String(configName, "", "configuration file, or none to read no file "+
		"(default: "+
		configVariable+", or lmserve/config.yaml in the user's configuration folder)")
	root.PersistentFlags().Bool(quietName, false, "no progress on standard error")
	root.AddCommand(newServe(), newKeys(), newSessions(), newMigrate(), newBackup(), newRestore(),
		newScore(),
		newWatch(), newComplete(), newSuggest(), newTrain(), newConvert(), newEval(), newTune(),
		newBench(), newVerify(), newModels(), newCompress(),
		newDecompress(),
		newHealth(), newConfig(), newCompletion(), newMan(), newVersion())
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	completeValues(root)
	everyCommand(root, func(c *cobra.Command) { c.Args = usageArgs(c.Args) })
	return root
}

// newHelp is cobra's help command, except that an unknown command is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]...",
		Short:             "Help about any command",
		Example:           "  lmserve help sessions replay",
		PersistentPreRunE: unconfigured,
		RunE: func(c *cobra.Command, args []string) error {
			about, err := findCommand(c.Root(), args)
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}
