package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/session"
)

func newSessionsExport(f *dataFlags) *cobra.Command {
	var flags modelFlags
	var out string
	c := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session to one file",
		Args:  exactly(1, "an id"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.withManager(c, flags, func(mg *session.Manager) error {
				if out == "" {
					return mg.Export(c.Context(), session.Caller{Admin: true}, args[0], c.OutOrStdout())
				}
				return atomicfile.Write(out, atomicfile.Options{Perm: 0o600, Exclusive: true}, func(w io.Writer) error {
					return mg.Export(c.Context(), session.Caller{Admin: true}, args[0], w)
				})
			})
		},
	}
	flags.register(c)
	c.Flags().StringVar(&out, "out", "", "file to write, which must not exist yet (default: standard output)")
	return c
}
