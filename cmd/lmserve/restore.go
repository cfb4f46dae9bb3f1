package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

func newRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Create a data folder from a backup",
		Long: `Create a data folder from a file that 'lmserve backup' wrote. DIR must not exist. The
folder appears complete or not at all; every byte is compared with its checksum. A
snapshot with a wrong checksum is skipped and printed, and the exit code is 1: its
session starts from an older snapshot, or from its text. If the server had a keys file,
copy it into the folder.`,
		Example: "  lmserve restore lmserve.tar.zst /var/lib/lmserve",
		Args:    exactly(2, "a backup and a new folder"),
		RunE: func(c *cobra.Command, args []string) error {
			in, err := openFile(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			info, err := in.Stat()
			if err != nil {
				return err
			}
			damaged := 0
			p := newProgress(c, "restore")
			defer p.end()
			from := p.reading(c.Context(), in, info.Size())
			err = withBackup(from, func(r io.Reader) error {
				return folder.Restore(c.Context(), r, args[1], func(d *storage.CorruptError) {
					damaged++
					p.aside(func() { fmt.Fprintln(c.OutOrStdout(), d) })
				})
			})
			p.end()
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: restored\n", args[1])
			return findings(damaged)
		},
	}
}

func withBackup(in io.Reader, do func(r io.Reader) error) error {
	r := bufio.NewReader(in)
	head, err := r.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(head, zstdMagic) {
		return do(r)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return err
	}
	defer z.Close()
	return do(z)
}
