package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// errFindings ends a check or a replay that has found damage or differences, and has printed them.
var errFindings = errors.New("damage or differences were found, as printed")

func newSessions() *cobra.Command {
	var f dataFlags
	c := subcommand(&cobra.Command{
		Use:   "sessions",
		Short: "List, check, move and delete the sessions in a data folder",
		Long: `List, check, compact, replay, export, import and delete the sessions in a data folder,
while no server has it open. SESSION is the id of a session, or its name.`,
		Example: "  lmserve sessions list\n  lmserve sessions check --data-dir /var/lib/lmserve",
	})
	f.registerFolder(c)
	c.AddCommand(newSessionsList(&f), newSessionsShow(&f), newSessionsCheck(&f), newSessionsRescue(), newSessionsReplay(&f), newSessionsExport(&f), newSessionsImport(&f),
		newSessionsDelete(&f), newSessionsCompact(&f))
	return c
}
