package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

func newSessionsCompact(f *dataFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Give the free space of a data folder's database back",
		Long: fmt.Sprintf(`Write the database of a data folder anew without its free pages, which deleted and trimmed
sessions leave behind. For as long as it takes, it needs the space of the new file on the
same disk. If it is stopped at any moment the old file stays, or the new one is in its
place. No server may have the folder open; a server does the same by itself when it
starts, and after deletions, if more than half of the file and more than %d MiB are free.`, sessionlog.CompactFreeMin>>20),
		Example: "  lmserve sessions compact --data-dir /var/lib/lmserve",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := f.mustFolder()
			if err != nil {
				return err
			}
			p := newProgress(c, "compact")
			defer p.end()
			done, err := sessionlog.Compact(c.Context(), dir,
				func(err error) { fmt.Fprintln(p.beside(c.ErrOrStderr()), "lmserve:", err) }, p.set)
			p.end()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), compacted(done))
			return err
		},
	}
}

// compacted says what a compaction has done.
func compacted(done sessionlog.Compacted) string {
	if done.After >= done.Before {
		return fmt.Sprintf("lmserve.db has %d bytes, and had no free pages to give back", done.After)
	}
	return fmt.Sprintf("lmserve.db had %d bytes and has %d now: %d were given back",
		done.Before, done.After, done.Before-done.After)
}
