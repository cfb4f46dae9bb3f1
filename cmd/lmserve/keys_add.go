package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/server/limits"
)

func newKeysAdd(f *dataFlags) *cobra.Command {
	var k keys.Key
	var expires string
	var disk byteSize
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Create a key and print it once",
		Long: `Create a key and print it on standard output, once: the file has only its hash.
Clients send the key with every request, as "Authorization: Bearer KEY".`,
		Example: `  lmserve keys add alice
  lmserve keys add ci --expires 90d --sessions 10 --bytes-per-second 65536 --disk 200M
  lmserve keys add ops --admin`,
		Args: exactly(1, "a name"),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := f.keysAt(c)
			if err != nil {
				return err
			}
			if want := keys.CheckName(args[0]); want != "" {
				return usagef("NAME is %q, expected %s", args[0], want)
			}
			made, token := keys.New(args[0], time.Now())
			made.Admin, made.Limits = k.Admin, k.Limits
			made.Limits.Disk = int64(disk)
			if err := checkLimits(c, k.Limits); err != nil {
				return usageError{err}
			}
			if made.Expires, err = parseExpires(expires, time.Now()); err != nil {
				return usageError{err}
			}
			first := false
			err = at.update(func(list []keys.Key) ([]keys.Key, error) {
				first = len(list) == 0
				return keys.Add(list, made)
			})
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), token)
			fmt.Fprintf(c.ErrOrStderr(),
				"lmserve: created key %s (%s) in %s; it is not shown again\n",
				made.ID, made.Name, at.name)
			if first {
				fmt.Fprintf(c.ErrOrStderr(),
					"lmserve: from now on, a server with this %s requires a key\n", at.kind)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&k.Admin, "admin", false, "access to the sessions of all keys")
	c.Flags().StringVar(&expires, "expires", "",
		"end of the key's validity: 2027-01-31 (UTC), 2027-01-31T12:00:00Z, or a time from "+
			"now such as 90d or 12h (default: never)")
	c.Flags().IntVar(&k.Limits.Sessions, "sessions", 0, fmt.Sprintf("maximum number of live "+
		"sessions of this key (default %d)", limits.KeySessionsDefault))
	c.Flags().IntVar(&k.Limits.Requests, "requests", 0, fmt.Sprintf("maximum number of "+
		"concurrent requests of this key (default %d)", limits.KeyRequestsDefault))
	c.Flags().Int64Var(&k.Limits.BytesPerSecond, "bytes-per-second", 0,
		fmt.Sprintf("maximum bytes of text per second for this key (default %d)",
			limits.KeyBytesPerSecondDefault))
	c.Flags().Var(&disk, "disk", fmt.Sprintf("disk space for the sessions of this key, such "+
		"as 800M or 4G (default %s)", sizeOf(limits.KeyDiskBytesDefault)))
	return c
}

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

// parseExpires parses a date, a time, or a duration from now; "" means never.
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
			return t, fmt.Errorf("--expires is %q, expected a date (2027-01-31), a time "+
				"(2027-01-31T12:00:00Z), or a time from now (90d, 12h)", text)
		}
		t = now.Add(d).Truncate(time.Second)
	}
	if t = t.UTC(); !t.After(now) {
		return t, fmt.Errorf("--expires is %s, expected a time in the future",
			t.Format(time.RFC3339))
	}
	return t, nil
}

// parseDays is like time.ParseDuration, but also accepts whole days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}
