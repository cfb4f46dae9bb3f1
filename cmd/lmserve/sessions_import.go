package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func newSessionsImport(f *dataFlags) *cobra.Command {
	var flags modelFlags
	var owner, name string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a session from a file (- is standard input) and print its id",
		Example: "  lmserve sessions import news.tar --name news\n" +
			"  lmserve sessions export news | lmserve sessions import - --data-dir other",
		Args: exactly(1, "a file"),
		RunE: func(c *cobra.Command, args []string) error {
			in, bytes := c.InOrStdin(), int64(0)
			if args[0] != "-" {
				file, err := openFile(c.Context(), args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				if info, err := file.Stat(); err == nil {
					bytes = info.Size()
				}
				in = file
			}
			p := newProgress(c, "import")
			defer p.end()
			in = p.reading(c.Context(), in, bytes)
			return f.withManager(c, flags, p.parts(), func(mg *session.Manager) error {
				info, err := mg.Import(c.Context(), session.Caller{Key: owner}, bufio.NewReader(in),
					name)
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), info.ID)
				return err
			})
		},
	}
	flags.register(c)
	c.Flags().StringVar(&name, "name", "", "name of the session (default: none)")
	c.Flags().StringVar(&owner, "owner", "",
		"id of the key that owns the session (default: none, as in a server without keys)")
	return c
}

// withManager opens a session manager for the data folder and passes the manager to the function
// `do`. The function importing receives the progress of imports.
func (f *dataFlags) withManager(
	c *cobra.Command, flags modelFlags, importing session.Progress,
	do func(mg *session.Manager) error,
) (err error) {
	m, err := flags.load()
	if err != nil {
		return err
	}
	store, err := f.openStored(c, folder.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	report := func(err error) {
		if !errors.As(err, new(*session.ModelError)) { // of other sessions in the folder
			fmt.Fprintln(c.ErrOrStderr(), "lmserve:", err)
		}
	}
	mg, err := session.NewManager(m, session.Options{Store: store, Threads: flags.threads,
		Others: flags.others(m), Importing: importing, Report: report})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mg.Drain(context.Background())) }()
	return do(mg)
}
