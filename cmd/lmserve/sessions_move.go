package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
)

func newSessionsMove(f *dataFlags) *cobra.Command {
	var back bool
	c := &cobra.Command{
		Use:   "move",
		Short: "Copy the sessions of a data folder into a database, or back",
		Long: `Copy all sessions of a data folder into a database with its objects, or with --back
from the database into a folder, which need not exist. Ids, names, text and states are
copied, so sessions continue bit-identically. No server may use either place. The source
is not changed. A session that the target has already, with the same content, is
skipped, so the same command continues after an interruption. If the content differs,
the session is printed, and the exit code is 1.`,
		Example: "  lmserve sessions move --data-dir /var/lib/lmserve --store " +
			"postgres://lmserve@db/lmserve --objects s3://states\n" +
			"  lmserve sessions move --back --data-dir copy --store " +
			"postgres://lmserve@db/lmserve --objects s3://states",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if !f.network.given() {
				return usagef("--store is not given, expected --store and --objects in addition " +
					"to the data folder")
			}
			data := dataFlags{dir: f.dir}
			dir, err := data.mustFolder()
			if err != nil {
				return err
			}
			network, err := f.network.open(c.Context(), postgres.Options{Alone: true})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, network.Close()) }()
			local, err := folder.Open(dir, folder.Options{ReadOnly: !back, Existing: !back})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, local.Close()) }()
			if back {
				return moveSessions(c, network, local)
			}
			return moveSessions(c, local, network)
		},
	}
	c.Flags().BoolVar(&back, "back", false, "copy from the database into the folder")
	return c
}

func moveSessions(c *cobra.Command, from, to storage.Store) error {
	copied, there, failed := 0, 0, 0
	p := newProgress(c, "move")
	defer p.end()
	err := session.Move(c.Context(), from, to, func(m session.Moved) {
		p.aside(func() {
			switch {
			case m.Err != nil:
				failed++
				fmt.Fprintf(c.OutOrStdout(), "%s: not copied: %v\n", m.ID, m.Err)
			case m.There:
				there++
			default:
				copied++
			}
		})
	}, p.set)
	p.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%d copied, %d already in the target, %d not "+
		"copied\n", copied, there,
		failed)
	return findings(failed)
}
