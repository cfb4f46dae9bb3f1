package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

type replayedSession struct {
	ID       string   `json:"id"`
	Problem  string   `json:"problem,omitempty"`
	From     int64    `json:"from"`
	To       int64    `json:"to"`
	Records  int      `json:"records"`
	Wrong    int      `json:"wrong"`
	First    string   `json:"first,omitempty"`
	Numerics []string `json:"other_numerics,omitempty"`
}

func newSessionsReplay(f *dataFlags) *cobra.Command {
	var flags modelFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay [SESSION]...",
		Short: "Recompute sessions and compare every score",
		Long: `Recompute sessions (default: all) from their text, and check that every logged total
is bit-identical. Text scored with another arithmetic ('lmserve version') is reported,
because rounding makes a difference there. If a total differs, the exit code is 1.`,
		Example: "  lmserve sessions replay\n  lmserve sessions replay --json news",
		RunE: func(c *cobra.Command, args []string) error {
			models, err := flags.finderOfAll()
			if err != nil {
				return err
			}
			return f.withStore(c, func(store storage.Store) error {
				ids := args
				if len(ids) == 0 {
					if err := storage.Each(c.Context(), store,
						func(found storage.Session) error {
							ids = append(ids,
								found.ID)
							return nil
						}); err != nil {
						return err
					}
				}
				wrong := false
				for _, named := range ids {
					id, m, err := models.of(c.Context(), store, named)
					if err != nil {
						return err
					}
					p := newProgress(c, "replay of "+id)
					r, err := session.Replay(c.Context(), m, store, id, flags.threads, p.set)
					p.end()
					if c.Context().Err() != nil {
						return c.Context().Err()
					}
					wrong = wrong || err != nil || r.Wrong > 0
					if err := printReplayed(c.OutOrStdout(), id, r, err, asJSON); err != nil {
						return err
					}
				}
				if wrong {
					return errFindings
				}
				return nil
			})
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON, one line for each session")
	return c
}

func printReplayed(w io.Writer, id string, r session.Replayed, problem error,
	asJSON bool) (err error) {
	out := replayedSession{ID: id, From: r.From, To: r.To, Records: r.Records, Wrong: r.Wrong,
		Numerics: r.Numerics}
	if r.First != nil {
		out.First = r.First.Error()
	}
	if problem != nil {
		out.Problem = problem.Error()
	}
	if asJSON {
		return json.NewEncoder(w).Encode(out)
	}
	switch {
	case problem != nil:
		_, err = fmt.Fprintf(w, "%s: %v\n", id, problem)
	case r.Wrong > 0:
		_, err = fmt.Fprintf(w, "%s: bytes %d to %d: %d of %d records differ; %v\n", id, r.From,
			r.To, r.Wrong, r.Records, r.First)
	default:
		_, err = fmt.Fprintf(w, "%s: bytes %d to %d: %d records, all bit-identical\n", id, r.From,
			r.To, r.Records)
	}
	for _, n := range r.Numerics {
		fmt.Fprintf(w, "%s: partly scored with the arithmetic %s\n", id, n)
	}
	return err
}
