package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// noDataDir is the --data-dir of a server that keeps sessions in memory only.
const noDataDir = "none"

// dataFlags say where the data folder and the keys file are.
type dataFlags struct {
	dir      string
	keysFile string
}

// register gives a command both flags.
func (f *dataFlags) register(c *cobra.Command) {
	f.registerFolder(c)
	c.PersistentFlags().StringVar(&f.keysFile, "keys-file", "", "keys file (default: keys.json in the data folder)")
}

// registerFolder gives a command that has nothing to do with keys the flag of the data folder.
func (f *dataFlags) registerFolder(c *cobra.Command) {
	c.PersistentFlags().StringVar(&f.dir, "data-dir", "", "data folder (default: lmserve in the user's state folder)")
}

// path is that of the keys file; it is "" where there is no data folder to have one.
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

// folder is the data folder.
func (f *dataFlags) folder() (string, error) {
	if f.dir != "" {
		return f.dir, nil
	}
	dir, err := stateFolder()
	if err != nil {
		return "", usageError{fmt.Errorf("--data-dir is not given, and there is no default: %w", err)}
	}
	return filepath.Join(dir, "lmserve"), nil
}

// stateFolder is where a user's programs keep what has to last and is no document.
func stateFolder() (string, error) {
	switch runtime.GOOS {
	case "darwin":
		return os.UserConfigDir()
	case "windows":
		return os.UserCacheDir() // %LocalAppData%
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
