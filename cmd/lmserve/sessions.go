package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// errFindings ends a check or a replay that has found damage or differences, and has printed them.
var errFindings = errors.New("damage or differences were found, as printed")

func newSessions() *cobra.Command {
	var f dataFlags
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List, check, move and delete the sessions in a data folder",
		Long: `List, check, compact, replay, export, import and delete the sessions in a data folder,
while no server has it open. SESSION is the id of a session, or its name.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("found %q, expected list, show, check, rescue, compact, replay, export, import or delete (see '%s --help')", args[0], c.CommandPath())}
			}
			return c.Help()
		},
	}
	f.registerFolder(c)
	c.AddCommand(newSessionsList(&f), newSessionsShow(&f), newSessionsCheck(&f), newSessionsRescue(), newSessionsReplay(&f), newSessionsExport(&f), newSessionsImport(&f),
		newSessionsDelete(&f), newSessionsCompact(&f))
	return c
}
