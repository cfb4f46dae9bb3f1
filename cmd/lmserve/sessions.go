package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// errFindings ends a check or a replay that has found something wrong, and has said what.
var errFindings = errors.New("not all is as it should be")

func newSessions() *cobra.Command {
	var f keysFlags
	c := &cobra.Command{
		Use:   "sessions",
		Short: "Look after the sessions in a data folder",
		Long: `List, check, replay, export, import and delete the sessions in a data folder, while no
server has it open.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("found %q, expected list, show, check, replay, export, import or delete (see '%s --help')", args[0], c.CommandPath())}
			}
			return c.Help()
		},
	}
	f.registerFolder(c)
	c.AddCommand(newSessionsList(&f), newSessionsShow(&f), newSessionsCheck(&f), newSessionsReplay(&f), newSessionsExport(&f), newSessionsImport(&f),
		newSessionsDelete(&f))
	return c
}

// mustFolder is the data folder, which these commands cannot do without.
func (f *keysFlags) mustFolder() (string, error) {
	if f.dataDir == noDataDir {
		return "", usageError{fmt.Errorf("--data-dir is %s, expected a folder", noDataDir)}
	}
	return f.folder()
}

// openFolder opens it; to be written to, it must be there already.
func (f *keysFlags) openFolder(o sessionlog.Options) (*sessionlog.Folder, error) {
	dir, err := f.mustFolder()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "lmserve.db")); err != nil && !o.ReadOnly {
		return nil, err
	}
	return sessionlog.Open(dir, o)
}

// withStore opens the folder for reading.
func (f *keysFlags) withStore(do func(store *sessionlog.Folder) error) (err error) {
	store, err := f.openFolder(sessionlog.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}

// withManager opens the folder as a server does.
func (f *keysFlags) withManager(c *cobra.Command, flags modelFlags, do func(mg *session.Manager) error) (err error) {
	m, err := flags.load()
	if err != nil {
		return err
	}
	store, err := f.openFolder(sessionlog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	mg, err := session.NewManager(m, session.Options{Store: store, Threads: flags.threads,
		Report: func(err error) { fmt.Fprintln(c.ErrOrStderr(), "lmserve:", err) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mg.Drain(context.Background())) }()
	return do(mg)
}

// each visits all sessions of a store.
func each(ctx context.Context, store sessionlog.Store, visit func(found sessionlog.Session) error) error {
	for after := ""; ; {
		page, err := store.List(ctx, after, 1000)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, found := range page {
			if err := visit(found); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ID
	}
}

// storedSession is a session as it is listed and shown.
type storedSession struct {
	ID           string            `json:"id"`
	Problem      string            `json:"problem,omitempty"` // why it cannot be used
	Model        string            `json:"model,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Created      time.Time         `json:"created,omitzero"`
	LastUsed     time.Time         `json:"last_used,omitzero"`
	Offset       int64             `json:"offset"`
	Bits         float64           `json:"bits"`
	BaselineBits *float64          `json:"baseline_bits,omitempty"`
	Method       string            `json:"method,omitempty"`
	Chunk        int               `json:"chunk,omitempty"`
	Seed         uint64            `json:"seed"`
	History      string            `json:"history,omitempty"`
	Start        int64             `json:"start"` // of the text that is kept
	Parent       *session.Parent   `json:"parent,omitempty"`
	Numerics     string            `json:"numerics,omitempty"`
	TTLSeconds   float64           `json:"ttl_seconds,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Snapshots    []storedSnapshot  `json:"snapshots,omitempty"` // shown only
}

type storedSnapshot struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

func describeStored(found sessionlog.Session) storedSession {
	i := session.Describe(found)
	s := storedSession{ID: i.ID, Model: i.Model, Owner: i.Owner, Created: i.Created, LastUsed: i.LastUsed, Offset: i.Offset, Bits: i.Bits,
		BaselineBits: i.BaselineBits, Seed: i.Seed, History: i.History, Start: found.Start,
		Parent: i.Parent, Numerics: i.Numerics, TTLSeconds: i.TTL.Seconds(), Labels: i.Labels}
	s.Method, _ = i.Settings["method"].(string) // "" if the head could not be read
	s.Chunk, _ = i.Settings["chunk"].(int)
	if i.Err != nil {
		s.Problem = i.Err.Error()
	}
	return s
}

func newSessionsList(f *keysFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sessions",
		Args:  exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return f.withStore(func(store *sessionlog.Folder) error {
				all := []storedSession{}
				err := each(c.Context(), store, func(found sessionlog.Session) error {
					all = append(all, describeStored(found))
					return nil
				})
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(c.OutOrStdout(), all)
				}
				return printSessions(c.OutOrStdout(), all)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func printSessions(w io.Writer, all []storedSession) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "id\towner\tcreated\tlast used\tbytes\tbits/byte\tmodel\tmethod\thistory\t")
	for _, s := range all {
		rate := "-"
		if s.Offset > 0 {
			rate = strconv.FormatFloat(s.Bits/float64(s.Offset), 'f', 4, 64)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.ID, orWord(s.Owner, s.Owner == "", "-"), date(s.Created), date(s.LastUsed), s.Offset, rate,
			orWord(s.Model, s.Model == "", "-"), orWord(s.Method, s.Method == "", "-"), orWord(s.History, s.History == "", "-"), s.Problem)
	}
	return tab.Flush()
}

func date(t time.Time) string { return orWord(t.Format(time.DateTime), t.IsZero(), "-") }

func newSessionsShow(f *keysFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show what is known of a session, as JSON",
		Args:  exactly(1, "an id"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.withStore(func(store *sessionlog.Folder) error {
				found, err := store.Get(c.Context(), args[0])
				if err != nil {
					return err
				}
				s := describeStored(found)
				kept, err := store.Snapshots(c.Context(), args[0])
				if err != nil {
					return err
				}
				for _, k := range kept {
					s.Snapshots = append(s.Snapshots, storedSnapshot{k.Offset, k.Bytes})
				}
				return printJSON(c.OutOrStdout(), s)
			})
		},
	}
}

func newSessionsCheck(f *keysFlags) *cobra.Command {
	var flags modelFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check every byte of a data folder",
		Long: `Check every checksum and invariant of a data folder: its files, the head and the log of
every session, and that its snapshots can be restored. Nothing is computed again (see
replay) and nothing is changed. Every finding is a line; with any the exit code is 1.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := flags.load()
			if err != nil {
				return err
			}
			dir, err := f.mustFolder()
			if err != nil {
				return err
			}
			findings, damaged := []string{}, 0
			tell := func(err error) {
				findings = append(findings, err.Error())
				var where *sessionlog.CorruptError
				if !errors.As(err, &where) || !where.Stray {
					damaged++
				}
				if !asJSON {
					fmt.Fprintln(c.OutOrStdout(), err)
				}
			}
			if err := sessionlog.Check(c.Context(), dir, func(damage *sessionlog.CorruptError) { tell(damage) }); err != nil {
				return err
			}
			sessions := 0
			err = f.withStore(func(store *sessionlog.Folder) error {
				return each(c.Context(), store, func(found sessionlog.Session) error {
					sessions++
					return session.Verify(c.Context(), m, store, found, tell)
				})
			})
			if err != nil && damaged == 0 { // else it is what was told
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), map[string]any{"sessions": sessions, "findings": findings})
			} else {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%d sessions, %d findings\n", sessions, len(findings))
			}
			if err == nil && damaged > 0 {
				err = errFindings
			}
			return err
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// replayedSession is what a replay came to.
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

func newSessionsReplay(f *keysFlags) *cobra.Command {
	var flags modelFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay [ID]...",
		Short: "Compute sessions again and compare every score",
		Long: `Compute sessions (without an ID: all) again from their text, and compare every logged
total to the bit. Text that was scored in another arithmetic ('lmserve version') is named:
there, rounding makes a difference. With any difference the exit code is 1.`,
		RunE: func(c *cobra.Command, args []string) error {
			m, err := flags.load()
			if err != nil {
				return err
			}
			return f.withStore(func(store *sessionlog.Folder) error {
				ids := args
				if len(ids) == 0 {
					if err := each(c.Context(), store, func(found sessionlog.Session) error { ids = append(ids, found.ID); return nil }); err != nil {
						return err
					}
				}
				wrong := false
				for _, id := range ids {
					bar := newByteBar(c.ErrOrStderr(), id)
					r, err := session.Replay(c.Context(), m, store, id, flags.threads, bar.set)
					bar.finish()
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
	c.Flags().BoolVar(&asJSON, "json", false, "a line of JSON a session")
	return c
}

func printReplayed(w io.Writer, id string, r session.Replayed, problem error, asJSON bool) (err error) {
	out := replayedSession{ID: id, From: r.From, To: r.To, Records: r.Records, Wrong: r.Wrong, Numerics: r.Numerics}
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
		_, err = fmt.Fprintf(w, "%s: bytes %d to %d: %d of %d records differ; %v\n", id, r.From, r.To, r.Wrong, r.Records, r.First)
	default:
		_, err = fmt.Fprintf(w, "%s: bytes %d to %d: %d records, all to the bit\n", id, r.From, r.To, r.Records)
	}
	for _, n := range r.Numerics {
		fmt.Fprintf(w, "%s: in part scored in %s\n", id, n)
	}
	return err
}

func newSessionsExport(f *keysFlags) *cobra.Command {
	var flags modelFlags
	var out string
	c := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session to one file",
		Args:  exactly(1, "an id"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.withManager(c, flags, func(mg *session.Manager) error {
				if out == "" {
					return mg.Export(c.Context(), session.Caller{Admin: true}, args[0], c.OutOrStdout())
				}
				return atomicfile.Write(out, atomicfile.Options{Perm: 0o600, Exclusive: true}, func(w io.Writer) error {
					return mg.Export(c.Context(), session.Caller{Admin: true}, args[0], w)
				})
			})
		},
	}
	flags.register(c)
	c.Flags().StringVar(&out, "out", "", "file to make (default: standard output)")
	return c
}

func newSessionsImport(f *keysFlags) *cobra.Command {
	var flags modelFlags
	var owner string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a session of an exported file (-: standard input) and print its id",
		Args:  exactly(1, "a file"),
		RunE: func(c *cobra.Command, args []string) error {
			in := c.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			return f.withManager(c, flags, func(mg *session.Manager) error {
				info, err := mg.Import(c.Context(), session.Caller{Key: owner}, bufio.NewReader(in))
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), info.ID)
				return err
			})
		},
	}
	flags.register(c)
	c.Flags().StringVar(&owner, "owner", "", "id of the key that it is to belong to (default: nobody's, as in a server without keys)")
	return c
}

func newSessionsDelete(f *keysFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete sessions, damaged ones too, with all that is kept of them",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly(1, "ids")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			store, err := f.openFolder(sessionlog.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			for _, id := range args {
				if err := store.Delete(c.Context(), id, 0); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
