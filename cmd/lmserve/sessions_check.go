package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func newSessionsCheck(f *dataFlags) *cobra.Command {
	var flags modelFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check every byte of a data folder",
		Long: `Check every checksum and invariant of a data folder: its files, the head and the log
of every session, and that snapshots can be restored. Nothing is recomputed (see
'sessions replay') or changed. Every finding is printed as one line. If a finding is
damage, the exit code is 1. With --store, there are no files to check.`,
		Example: "  lmserve sessions check --data-dir /var/lib/lmserve",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			models, err := flags.finderOfAll()
			if err != nil {
				return err
			}
			if err := f.choosePlace(c); err != nil {
				return err
			}
			found, damaged, sessions := []string{}, 0, 0
			printAll := func() error {
				return printJSON(c.OutOrStdout(), map[string]any{"sessions": sessions,
					"findings": found})
			}
			// failed prints the findings before an error, unless they were printed as lines
			failed := func(err error) error {
				if asJSON && len(found) > 0 {
					_ = printAll() // the first error is returned
				}
				return err
			}
			p := newProgress(c, "check")
			defer p.end()
			tell := func(err error) {
				foreign := errors.As(err, new(*session.ModelError))
				if foreign {
					err = fmt.Errorf("%w; give the model's file by --model", err)
				}
				// the check of files and the check of sessions may find the same damage
				if slices.Contains(found, err.Error()) {
					return
				}
				found = append(found, err.Error())
				var where *storage.CorruptError
				if stray := errors.As(err, &where) && where.Stray; !foreign && !stray {
					damaged++
				}
				if !asJSON {
					p.aside(func() { fmt.Fprintln(c.OutOrStdout(), err) })
				}
			}
			if !f.network.given() { // the database checks its files itself
				dir, err := f.mustFolder()
				if err != nil {
					return err
				}
				p.say("the files")
				err = folder.CheckWithProgress(c.Context(), dir,
					func(damage *storage.CorruptError) { tell(damage) },
					p.set)
				if err != nil {
					return failed(err)
				}
			}
			p.beginOf("the sessions", "session")
			err = f.withStore(c, func(store storage.Store) error {
				all := int64(0)
				count := func(storage.Session) error { all++; return nil }
				if err := storage.Each(c.Context(), store, count); err != nil {
					return err
				}
				return storage.Each(c.Context(), store, func(found storage.Session) error {
					p.set(int64(sessions), all)
					sessions++
					m, err := models.find(session.Describe(found).Model)
					if err != nil {
						return err
					}
					return session.Verify(c.Context(), m, store, found, tell)
				})
			})
			p.end()
			if damaged > 0 && errors.Is(err, storage.ErrCorrupt) {
				tell(err) // usually repeats the damage
				err = nil
			}
			if err != nil {
				return failed(err)
			}
			if asJSON {
				err = printAll()
			} else {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%d sessions, %d findings\n", sessions,
					len(found))
			}
			return cmp.Or(err, findings(damaged))
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of lines")
	return c
}
