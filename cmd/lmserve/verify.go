package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/lab/conformance"
	"github.com/lmserve/lmserve/weights"
)

func newVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE...",
		Short: "Compare results with files of reference numbers",
		Long: `Replay conformance files through the code that serves and trains, and print the
largest error of every tensor. The exit code is 1 if a tensor is out of tolerance. Kinds
of files: txl, adasoftmax, sparsemeta, metatrain, metaonline. See docs/conformance.md
for the format.`,
		Example: "  lmserve verify internal/lab/conformance/testdata/*.safetensors",
		Args:    atLeastOne("a file"),
		RunE: func(c *cobra.Command, files []string) error {
			x := kernel.NewExec(1)
			defer x.Close()
			p := newProgressOf(c, "verify", "file")
			defer p.end()
			out, failed := p.beside(c.OutOrStdout()), error(nil)
			for i, file := range files {
				p.say(file)
				p.set(int64(i), int64(len(files)))
				failed = errors.Join(failed, verify(out, x, file))
				if err := c.Context().Err(); err != nil {
					return errors.Join(err, failed)
				}
			}
			return failed
		},
	}
}

func verify(out io.Writer, x *kernel.Exec, file string) error {
	f, err := weights.ReadFile(file)
	if err != nil {
		return err
	}
	report, err := conformance.Run(f, x)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s (%s, %s)\n", file, report.Kind, x.Arithmetic().Numerics())
	wrong := 0
	for _, check := range report.Checks {
		verdict := "ok"
		if !check.OK() {
			verdict = "OUT OF TOLERANCE"
			wrong++
		}
		fmt.Fprintf(w, "  %s\terror %.2e\tof %.2e\t%s\n", check.Tensor, check.Error,
			check.Tolerance, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d tensors, %d out of tolerance\n", file, len(report.Checks), wrong)
	if wrong > 0 {
		return fmt.Errorf("%s: %d of %d tensors are out of tolerance", file, wrong,
			len(report.Checks))
	}
	return nil
}
