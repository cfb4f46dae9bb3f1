package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
)

// noDataDir is the --data-dir of a server that keeps sessions only in memory.
const noDataDir = "none"

type dataFlags struct {
	dir      string
	keysFile string
	network  networkFlags // the store that servers share; unset if sessions are in the data folder
}

func (f *dataFlags) register(c *cobra.Command) {
	f.registerFolder(c)
	c.PersistentFlags().StringVar(&f.keysFile, "keys-file", "",
		"file of the keys (default: keys.json in the data folder)")
}

func (f *dataFlags) registerFolder(c *cobra.Command) {
	c.PersistentFlags().StringVar(&f.dir, "data-dir", "",
		"data folder (default: lmserve in the user's state folder)")
}

// path returns the path of the keys file, or "" without a data folder.
func (f *dataFlags) path() (string, error) {
	switch {
	case f.keysFile != "":
		return f.keysFile, nil
	case f.dir == noDataDir:
		return "", nil
	}
	dir, err := f.folder()
	return filepath.Join(dir, "keys.json"), err
}

func (f *dataFlags) folder() (string, error) {
	if f.dir != "" {
		return f.dir, nil
	}
	dir, err := stateFolder()
	if err != nil {
		return "", usagef("--data-dir is not given, and this system has no default: %w", err)
	}
	return filepath.Join(dir, "lmserve"), nil
}

func (f *dataFlags) mustPath() (string, error) {
	path, err := f.path()
	if err == nil && path == "" {
		err = usagef("--data-dir is %s, expected a folder, or --keys-file with a keys file",
			noDataDir)
	}
	return path, err
}

func (f *dataFlags) mustFolder() (string, error) {
	if f.network.given() {
		return "", usagef("--store is given, expected a data folder: use the database's own " +
			"tools for this task")
	}
	if f.dir == noDataDir {
		return "", usagef("--data-dir is %s, expected a folder", noDataDir)
	}
	return f.folder()
}

// choosePlace chooses between a folder or file and a database, if both are given. It returns an
// error if the command line has both.
func (f *dataFlags) choosePlace(c *cobra.Command) error {
	place, err := chosen(c, "store", "data-dir")
	if err != nil {
		return err
	}
	keys, err := chosen(c, "keys-file", "store")
	switch {
	case err != nil:
		return err
	case keys == "store":
		f.keysFile = ""
	case place == "data-dir", f.keysFile != "": // a server, too, prefers a keys file to a database
		f.network = networkFlags{}
	}
	return nil
}

// openStored opens the existing store of the sessions.
func (f *dataFlags) openStored(c *cobra.Command, o folder.Options) (storage.Store, error) {
	if err := f.choosePlace(c); err != nil {
		return nil, err
	}
	if f.network.given() {
		store, err := f.network.open(c.Context(), postgres.Options{Alone: !o.ReadOnly})
		if err != nil {
			return nil, err // literally nil: an interface with a nil *postgres.Store is not nil
		}
		return store, nil
	}
	dir, err := f.mustFolder()
	if err != nil {
		return nil, err
	}
	o.Existing = true
	return folder.Open(dir, o)
}

// withStore opens the store of the sessions for reading, calls do, and closes the store.
func (f *dataFlags) withStore(
	c *cobra.Command, do func(store storage.Store) error,
) (err error) {
	store, err := f.openStored(c, folder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}

// stateFolder returns the user's folder for persistent state of programs.
func stateFolder() (string, error) {
	switch runtime.GOOS {
	case "darwin":
		return os.UserConfigDir()
	case "windows":
		return os.UserCacheDir() // returns %LocalAppData%
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
