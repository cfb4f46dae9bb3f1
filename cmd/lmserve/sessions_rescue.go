package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func newSessionsRescue() *cobra.Command {
	return &cobra.Command{
		Use:   "rescue DIR OUT",
		Short: "Copy the readable sessions of a damaged data folder into a new one",
		Long: `Write every readable session of the data folder DIR into the new data folder OUT,
with its valid snapshots. DIR is not changed. A session that has lost records ends at
the last valid record; if a valid snapshot follows the gap, the session begins after the
gap instead. Every unreadable place and every incomplete session is printed as one line.
If anything was lost, the exit code is 1. The keys file is not copied.`,
		Example: "  lmserve sessions rescue /var/lib/lmserve /var/lib/lmserve-rescued",
		Args:    exactly(2, "the damaged folder and the new one"),
		RunE: func(c *cobra.Command, args []string) error {
			p := newProgress(c, "rescue")
			defer p.end()
			out, sessions, lost := p.beside(c.OutOrStdout()), 0, 0
			rescued := func(r folder.Rescued) {
				for _, d := range r.Lost {
					fmt.Fprintln(out, d)
				}
				switch {
				case !r.Kept:
					lost++
					fmt.Fprintf(out, "%s: lost\n", r.ID)
					return
				case len(r.Lost) > 0:
					lost++
					fmt.Fprintf(out, "%s: rescued in part: bytes %d to %d of its text, %d "+
						"snapshots\n",
						r.ID, r.Start, r.End, r.Snapshots)
				}
				sessions++
			}
			err := folder.Rescue(c.Context(), args[0], args[1], session.CutHead, rescued)
			p.end()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%d sessions rescued, %d lost or incomplete\n", sessions, lost)
			return findings(lost)
		},
	}
}
