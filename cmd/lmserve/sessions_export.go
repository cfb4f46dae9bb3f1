package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

func newSessionsExport(f *dataFlags) *cobra.Command {
	var flags modelFlags
	var out string
	c := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session to one file",
		Long: `Write a session to one file, for 'sessions import' in any data folder. The data
folder does not change. For a damaged session, the file has the text up to the last
valid record, and the state after that text. A line on standard error then says which
bytes are included and what was lost, and the exit code is 1.`,
		Example: "  lmserve sessions export news --out news.tar",
		Args:    exactly(1, "an id or a name"),
		RunE: func(c *cobra.Command, args []string) error {
			models, err := flags.finder()
			if err != nil {
				return err
			}
			return f.withStore(c, func(store storage.Store) error {
				id, m, err := models.of(c.Context(), store, args[0])
				if err != nil {
					return err
				}
				whole := true
				p := newProgress(c, "export")
				defer p.end()
				part := func(lost session.Part) {
					whole = false
					fmt.Fprintf(p.beside(c.ErrOrStderr()),
						"lmserve: session %s was exported in part: %v\n", id, lost)
				}
				export := func(w io.Writer) error {
					to := &progressWriter{ctx: c.Context(), w: w, set: func(_, _ int64) {}}
					return session.ExportStored(c.Context(), m, store, id, flags.threads, to,
						part, p.parts())
				}
				if out == "" {
					err = export(c.OutOrStdout())
				} else {
					o := atomicfile.Options{Perm: 0o600, Exclusive: true}
					err = atomicfile.Write(out, o, export)
				}
				if err == nil && !whole {
					err = errFindings
				}
				return err
			})
		},
	}
	flags.register(c)
	c.Flags().StringVar(&out, "out", "",
		"file to create for the exported session; it must not exist (default: standard output)")
	return c
}
