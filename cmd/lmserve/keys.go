package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/server/limits"
)

func newKeys() *cobra.Command {
	var f keysFlags
	c := &cobra.Command{
		Use:   "keys",
		Short: "Say who may use a server",
		Long: `Make, list and revoke the bearer keys of a server. They are in the file keys.json
of the data folder, hashed; a running server follows it within a second. Once there
is such a file, every request needs a key.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("found %q, expected add, list or revoke (see '%s --help')", args[0], c.CommandPath())}
			}
			return c.Help()
		},
	}
	f.register(c, "file")
	c.AddCommand(newKeysAdd(&f), newKeysList(&f), newKeysRevoke(&f))
	return c
}

// mustPath is the path of the keys file, which these commands cannot do without.
func (f *keysFlags) mustPath() (string, error) {
	path, err := f.path()
	if err == nil && path == "" {
		err = usageError{fmt.Errorf("--data-dir is %s, expected a folder, or --file with a keys file", noDataDir)}
	}
	return path, err
}

func newKeysAdd(f *keysFlags) *cobra.Command {
	var k keys.Key
	var expires string
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a key and show it, once",
		Long: `Make a key. It goes to standard output, this once: the file has only its hash.
Clients send it with every request, as "Authorization: Bearer KEY".`,
		Example: `  lmserve keys add alice
  lmserve keys add ci --expires 90d --sessions 10 --bytes-per-second 65536
  lmserve keys add ops --admin`,
		Args: exactly(1, "a name"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := f.mustPath()
			if err != nil {
				return err
			}
			if want := keys.CheckName(args[0]); want != "" {
				return usageError{fmt.Errorf("NAME is %q, expected %s", args[0], want)}
			}
			made, token := keys.New(args[0], time.Now())
			made.Admin, made.Limits = k.Admin, k.Limits
			if err := checkLimits(c, k.Limits); err != nil {
				return usageError{err}
			}
			if made.Expires, err = parseExpires(expires, time.Now()); err != nil {
				return usageError{err}
			}
			first := false
			err = keys.UpdateFile(path, func(list []keys.Key) ([]keys.Key, error) {
				first = len(list) == 0
				return keys.Add(list, made)
			})
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), token)
			fmt.Fprintf(c.ErrOrStderr(), "lmserve: made key %s (%s) in %s; it is not shown again\n", made.ID, made.Name, path)
			if first {
				fmt.Fprintln(c.ErrOrStderr(), "lmserve: from now on a server with this file asks for a key")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&k.Admin, "admin", false, "sees and may change the sessions of all keys")
	c.Flags().StringVar(&expires, "expires", "", "when it ends: 2027-01-31 (UTC), 2027-01-31T12:00:00Z, or a time from now such as 90d or 12h (default: never)")
	c.Flags().IntVar(&k.Limits.Sessions, "sessions", 0, fmt.Sprintf("most live sessions (default %d)", limits.KeySessionsDefault))
	c.Flags().IntVar(&k.Limits.Requests, "requests", 0, fmt.Sprintf("most requests at work at the same time (default %d)", limits.KeyRequestsDefault))
	c.Flags().Int64Var(&k.Limits.BytesPerSecond, "bytes-per-second", 0, fmt.Sprintf("bytes of text a second (default %d)", limits.KeyBytesPerSecondDefault))
	return c
}

// checkLimits holds the flags that were given against their ranges.
func checkLimits(c *cobra.Command, l keys.Limits) error {
	for _, f := range []struct {
		flag      string
		got, most int64
	}{
		{"sessions", int64(l.Sessions), keys.SessionsMax},
		{"requests", int64(l.Requests), keys.RequestsMax},
		{"bytes-per-second", l.BytesPerSecond, keys.BytesPerSecondMax},
	} {
		if c.Flags().Changed(f.flag) && (f.got < 1 || f.got > f.most) {
			return fmt.Errorf("--%s is %d, expected 1 to %d", f.flag, f.got, f.most)
		}
	}
	return nil
}

// parseExpires reads a date, a time, or a time from now; "" is never.
func parseExpires(text string, now time.Time) (t time.Time, err error) {
	if text == "" {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err = time.Parse(layout, text); err == nil {
			break
		}
	}
	if err != nil {
		d, bad := parseDays(text)
		if bad != nil {
			return t, fmt.Errorf("--expires is %q, expected a date (2027-01-31), a time (2027-01-31T12:00:00Z), or a time from now (90d, 12h)", text)
		}
		t = now.Add(d).Truncate(time.Second)
	}
	if t = t.UTC(); !t.After(now) {
		return t, fmt.Errorf("--expires is %s, expected a time to come", t.Format(time.RFC3339))
	}
	return t, nil
}

// parseDays is time.ParseDuration for whole days too.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func newKeysList(f *keysFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the keys",
		Args:  exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := f.mustPath()
			if err != nil {
				return err
			}
			list, err := keys.ReadFile(path)
			missing := errors.Is(err, fs.ErrNotExist)
			switch {
			case err != nil && !missing:
				return err
			case asJSON:
				return printJSON(c.OutOrStdout(), listed(list, time.Now()))
			case missing:
				fmt.Fprintf(c.OutOrStdout(), "There is no %s: a server on it asks for no keys.\n", path)
				return nil
			}
			return printKeys(c.OutOrStdout(), listed(list, time.Now()))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// listedKey is a key as it is listed.
type listedKey struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Status         string    `json:"status"` // active, expired or revoked
	Admin          bool      `json:"admin"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires,omitzero"`
	Revoked        time.Time `json:"revoked,omitzero"`
	Sessions       int       `json:"sessions,omitempty"` // of its own; absent: the server's default, as are the next two
	Requests       int       `json:"requests,omitempty"`
	BytesPerSecond int64     `json:"bytes_per_second,omitempty"`
}

func listed(list []keys.Key, now time.Time) []listedKey {
	out := make([]listedKey, len(list))
	for i, k := range list {
		out[i] = listedKey{k.ID, k.Name, k.Status(now), k.Admin, k.Created, k.Expires, k.Revoked, k.Limits.Sessions, k.Limits.Requests, k.Limits.BytesPerSecond}
	}
	return out
}

func printKeys(w io.Writer, list []listedKey) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "id\tname\tstatus\tadmin\tcreated\texpires\tsessions\trequests\tbytes/s")
	for _, k := range list {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Status, map[bool]string{true: "yes", false: "no"}[k.Admin],
			k.Created.Format(time.DateOnly), orWord(k.Expires.Format(time.DateTime), k.Expires.IsZero(), "never"),
			orDefault(int64(k.Sessions)), orDefault(int64(k.Requests)), orDefault(k.BytesPerSecond))
	}
	return tab.Flush()
}

func orWord(text string, instead bool, word string) string {
	if instead {
		return word
	}
	return text
}

func orDefault(n int64) string { return orWord(strconv.FormatInt(n, 10), n == 0, "default") }

func newKeysRevoke(f *keysFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Refuse a key from now on",
		Long: `Revoke a key, named by its id or its name. A running server refuses it within a
second, and ends what it is still feeding. Its sessions stay, for admins; its name is
free for a new key.`,
		Args: exactly(1, "an id or a name"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := f.mustPath()
			if err != nil {
				return err
			}
			if _, err := keys.ReadFile(path); err != nil { // before a file, or a folder, is made
				return err
			}
			var gone keys.Key
			err = keys.UpdateFile(path, func(list []keys.Key) (_ []keys.Key, err error) {
				list, gone, err = keys.Revoke(list, args[0], time.Now())
				return list, err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "lmserve: revoked key %s (%s) in %s\n", gone.ID, gone.Name, path)
			return nil
		},
	}
}

// exactly is cobra.ExactArgs with an error that says what was expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("found %d arguments, expected %s (see '%s --help')", len(args), what, c.CommandPath())}
		}
		return nil
	}
}
