package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
)

// keysPlace is where the commands find the keys: a file or a database.
type keysPlace struct {
	name   string
	kind   string // "file" or "database"
	none   string // the message if there are no keys
	read   func() ([]keys.Key, error)
	update func(change func([]keys.Key) ([]keys.Key, error)) error
}

func (f *dataFlags) keysAt(c *cobra.Command) (keysPlace, error) {
	if err := f.choosePlace(c); err != nil {
		return keysPlace{}, err
	}
	ctx, url := c.Context(), f.network.store
	if url == "" {
		path, err := f.mustPath()
		return keysPlace{
			name: path, kind: "file", none: "There is no " + path +
				": a server that uses it requires no key.",
			read: func() ([]keys.Key, error) { return keys.ReadFile(path) },
			update: func(change func([]keys.Key) ([]keys.Key, error)) error {
				return keys.UpdateFile(path, change)
			},
		}, err
	}
	name := plain(url)
	return keysPlace{
		name: name, kind: "database", none: "There are no keys in " + name +
			": a server that uses it requires no key.",
		read: func() ([]keys.Key, error) {
			text, err := postgres.ReadKeys(ctx, url)
			if err == nil && text == nil {
				err = fmt.Errorf("%s: the database has no keys: %w", name, fs.ErrNotExist)
			}
			if err != nil {
				return nil, storeUnread(err)
			}
			return keys.Parse(name, text)
		},
		update: func(change func([]keys.Key) ([]keys.Key, error)) error {
			return storeUnread(postgres.UpdateKeys(ctx, url, func(text []byte) (_ []byte,
				err error) {
				var list []keys.Key
				if text != nil {
					if list, err = keys.Parse(name, text); err != nil {
						return nil, err
					}
				}
				if list, err = change(list); err != nil {
					return nil, err
				}
				return keys.Format(list), nil
			}))
		},
	}, nil
}

func storeUnread(err error) error {
	switch {
	case errors.Is(err, storage.ErrInvalid):
		return usagef("--store: %w", err)
	case err != nil:
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// keysLook is the interval at which a server checks the keys in its database.
const keysLook = time.Second

// copyKeys keeps a copy of the database's keys in the data folder. The server reloads the copy like
// any keys file, so the last known keys stay valid while the database is unreachable. If the server
// has its own keys file, there is no copy, and path is "".
func (f *serveFlags) copyKeys(ctx context.Context, log *zap.Logger) (path string, err error) {
	url := f.data.network.store
	if url == "" || f.data.keysFile != "" || f.data.dir == noDataDir {
		return "", nil
	}
	dir, err := f.data.folder()
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(filepath.Join(dir, "keys.json")); err == nil {
		return "", nil
	}
	text, err := postgres.ReadKeys(ctx, url)
	if err != nil {
		return "", storeUnread(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "keys-of-database.json")
	put := func(text []byte) error {
		if text == nil {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		return atomicfile.Write(path, atomicfile.Options{Perm: 0o600}, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err := put(text); err != nil {
		return "", err
	}
	failed := false // so that a lasting failure is logged once
	go postgres.FollowKeys(ctx, url, keysLook, text, func(text []byte) error {
		err := put(text)
		if err != nil && !failed {
			log.Error("the keys of the database cannot be used; retrying", zap.Error(err))
		}
		failed = err != nil
		return err
	})
	return path, nil
}
