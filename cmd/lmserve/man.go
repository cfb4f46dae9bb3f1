package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const manSection = "1"

func newMan() *cobra.Command {
	var date string
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write a manual page for each command into a folder, which is created if necessary:
lmserve.1 for the program, lmserve-serve.1 for 'lmserve serve', and so on. The pages
have the text of --help.`,
		Example: `  lmserve man ~/.local/share/man/man1
  lmserve man --date 2026-11-22 dist/man`,
		Args:              exactly(1, "a folder to write to"),
		PersistentPreRunE: unconfigured,
		RunE: func(c *cobra.Command, args []string) error {
			when, err := time.Parse(time.DateOnly, date)
			if date != "" && err != nil {
				return usagef("--date is %q, expected a day such as 2026-11-22", date)
			}
			if date == "" {
				when = time.Now()
			}
			return writeManual(c.Root(), args[0], when)
		},
	}
	c.Flags().StringVar(&date, "date", "",
		"date of the manual pages, such as 2026-11-22 (default: today)")
	return c
}

func writeManual(root *cobra.Command, dir string, date time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	everyCommand(root, func(c *cobra.Command) {
		c.DisableAutoGenTag = true
		if f := c.Flags().Lookup("threads"); f != nil {
			f.DefValue = "PROCESSORS" // the page must not depend on the machine that writes it
		}
	})
	var err error
	everyCommand(root, func(c *cobra.Command) {
		if err == nil && c.IsAvailableCommand() {
			err = writeManualPage(c, dir, date)
		}
	})
	return err
}

// manOption matches a flag in a manual page from cobra. cobra writes a tab before a flag's
// description, but mandoc requires the macro TP.
var manOption = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*)\n\t(.*)$`)

// writeManualPage writes a command's page as mandoc requires it: with a full date, and flags as
// tagged paragraphs.
func writeManualPage(c *cobra.Command, dir string, date time.Time) error {
	header := &doc.GenManHeader{
		Title:   strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", "-")),
		Section: manSection, Date: &date, Source: "lmserve " + buildVersion(), Manual: "lmserve",
	}
	var page bytes.Buffer
	if err := doc.GenMan(c, header, &page); err != nil {
		return err
	}
	month, day := date.Format("Jan 2006"), date.Format(time.DateOnly)
	text := bytes.Replace(page.Bytes(), []byte(month), []byte(day), 1)
	text = manOption.ReplaceAll(text, []byte(".TP\n$1\n$2"))
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + "." + manSection
	return os.WriteFile(filepath.Join(dir, name), text, 0o644)
}
