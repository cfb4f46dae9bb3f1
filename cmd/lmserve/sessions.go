package main

import "github.com/spf13/cobra"

func newSessions() *cobra.Command {
	var f dataFlags
	c := subcommand(&cobra.Command{
		Use:   "sessions",
		Short: "List, check, move and delete the sessions in a data folder",
		Long: `List, check, replay, export, import and delete the sessions of a data folder that no
server uses. SESSION is the id or the name of a session. With --store and --objects, the
sessions are in a database; rescue works only on folders.`,
		Example: "  lmserve sessions list\n  lmserve sessions check --data-dir /var/lib/lmserve",
	})
	f.registerFolder(c)
	f.network.register(c.PersistentFlags())
	c.AddCommand(newSessionsList(&f), newSessionsShow(&f), newSessionsCheck(&f),
		newSessionsRescue(), newSessionsReplay(&f), newSessionsExport(&f), newSessionsImport(&f),
		newSessionsMove(&f), newSessionsDelete(&f))
	return c
}
