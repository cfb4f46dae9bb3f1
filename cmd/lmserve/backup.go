package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

const zstdSuffix = ".zst"

func newBackup() *cobra.Command {
	var f dataFlags
	var server, key, keyFile string
	c := &cobra.Command{
		Use:   "backup OUT",
		Short: "Write all sessions to one file",
		Long: `Write a consistent backup of all sessions to one file, for 'lmserve restore'. The
source is a running server (--server), which continues its work, or a data folder that
no server uses. The file must not exist, and appears when it is complete and its
checksums are verified. A name with the ending ` + zstdSuffix + ` compresses it.

After a lost connection, the backup reconnects and continues. If the server requires keys,
give an admin's key by --key-file, the variable LMSERVE_KEY or --key. The backup does not
include the keys file.`,
		Example: "  lmserve backup --server http://127.0.0.1:8080 lmserve.tar.zst\n" +
			"  lmserve backup --data-dir /var/lib/lmserve lmserve.tar",
		Args: exactly(1, "a file to write"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := absent(args[0]); err != nil {
				return err
			}
			source, err := chosen(c, "server", "data-dir")
			if err != nil {
				return err
			}
			if server == "" || source == "data-dir" {
				return backupFolder(c, &f, args[0])
			}
			if keyFile != "" {
				text, err := readBounded(c.Context(), keyFile)
				if err != nil {
					return fmt.Errorf("--key-file: %w", err)
				}
				key = strings.TrimSpace(string(text))
			}
			cl, err := client.New(server, client.WithKey(key))
			if err != nil {
				return usagef("--server: %w", err)
			}
			p := newProgress(c, "backup")
			defer p.end()
			return writeBackup(c, args[0], p, func(w io.Writer) error {
				return cl.Backup(c.Context(), w, p.set)
			})
		},
	}
	f.registerFolder(c)
	c.Flags().StringVar(&server, "server", "",
		"URL of a running server, such as http://127.0.0.1:8080")
	c.Flags().StringVar(&key, "key", "", "key of an admin, as printed by 'lmserve keys add'")
	c.Flags().StringVar(&keyFile, "key-file", "",
		"file that contains the admin's key (default: none, --key is used)")
	return c
}

// absent returns an error if a file exists. Commands call absent before long work that creates the
// file.
func absent(path string) error {
	if err := atomicfile.Absent(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func backupFolder(c *cobra.Command, f *dataFlags, out string) error {
	return f.withStore(c, func(store storage.Store) error {
		backuper, ok := store.(storage.Backuper)
		if !ok {
			return fmt.Errorf(
				"found a session store of type %T, expected a store that can make backups", store)
		}
		b, err := backuper.Backup(c.Context())
		if err != nil {
			return err
		}
		defer b.Close()
		r := b.Open()
		defer r.Close()
		p := newProgress(c, "backup")
		defer p.end()
		return writeBackup(c, out, p, func(w io.Writer) error {
			_, err := io.Copy(&progressWriter{ctx: c.Context(), w: w, total: b.Size(), set: p.set},
				r)
			return err
		})
	})
}

// writeBackup writes a backup to a temporary file. It reads the file back as a check, and then
// renames the file to its final name.
func writeBackup(
	c *cobra.Command, path string, p *progress, write func(w io.Writer) error,
) error {
	name := fmt.Sprintf(".%s.%016x.part", filepath.Base(path), rand.Uint64())
	temporary := filepath.Join(filepath.Dir(path), name)
	out, err := atomicfile.Create(path, atomicfile.Options{Perm: 0o600, Exclusive: true,
		Temporary: temporary})
	if err != nil {
		return err
	}
	defer out.Discard()
	if err := compressing(path, out, write); err != nil {
		return err
	}
	damaged := 0
	in, err := os.Open(temporary)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	p.begin("verifying")
	err = withBackup(p.reading(c.Context(), in, info.Size()), func(r io.Reader) error {
		return folder.CheckBackup(c.Context(), r, func(d *storage.CorruptError) {
			damaged++
			p.aside(func() { fmt.Fprintln(c.OutOrStdout(), d) })
		})
	})
	if err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	p.end()
	fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes\n", path, info.Size())
	return findings(damaged)
}

func compressing(name string, w io.Writer, write func(w io.Writer) error) error {
	if !strings.HasSuffix(name, zstdSuffix) {
		return write(w)
	}
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	if err := write(z); err != nil {
		_ = z.Close()
		return err
	}
	return z.Close()
}
