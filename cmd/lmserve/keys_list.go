package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/keys"
)

func newKeysList(f *dataFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the keys",
		Example: "  lmserve keys list\n  lmserve keys list --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := f.keysAt(c)
			if err != nil {
				return err
			}
			list, err := at.read()
			missing := errors.Is(err, fs.ErrNotExist)
			switch {
			case err != nil && !missing:
				return err
			case asJSON:
				return printJSON(c.OutOrStdout(), listed(list, time.Now()))
			case missing:
				fmt.Fprintln(c.OutOrStdout(), at.none)
				return nil
			}
			return printKeys(c.OutOrStdout(), listed(list, time.Now()))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of a table")
	return c
}

type listedKey struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Status         string    `json:"status"` // active, expired or revoked
	Admin          bool      `json:"admin"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires,omitzero"`
	Revoked        time.Time `json:"revoked,omitzero"`
	Sessions       int       `json:"sessions,omitempty"` // 0 means the server's default
	Requests       int       `json:"requests,omitempty"`
	BytesPerSecond int64     `json:"bytes_per_second,omitempty"`
	Disk           int64     `json:"disk,omitempty"`
}

func listed(list []keys.Key, now time.Time) []listedKey {
	out := make([]listedKey, len(list))
	for i, k := range list {
		out[i] = listedKey{
			k.ID, k.Name, k.Status(now), k.Admin, k.Created, k.Expires, k.Revoked,
			k.Limits.Sessions, k.Limits.Requests, k.Limits.BytesPerSecond, k.Limits.Disk,
		}
	}
	return out
}

func printKeys(w io.Writer, list []listedKey) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab,
		"id\tname\tstatus\tadmin\tcreated\texpires\tsessions\trequests\tbytes/s\tdisk")
	for _, k := range list {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Status,
			map[bool]string{true: "yes", false: "no"}[k.Admin],
			k.Created.Format(time.DateOnly), orWord(k.Expires.Format(time.DateTime),
				k.Expires.IsZero(), "never"),
			orDefault(int64(k.Sessions)), orDefault(int64(k.Requests)), orDefault(k.BytesPerSecond),
			orWord(sizeOf(k.Disk), k.Disk == 0, "default"))
	}
	return tab.Flush()
}

func orDefault(n int64) string { return orWord(strconv.FormatInt(n, 10), n == 0, "default") }
