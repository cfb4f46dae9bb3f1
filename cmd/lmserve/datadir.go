package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// noDataDir is the --data-dir of a server that keeps nothing.
const noDataDir = "none"

// dataFlags say where the keys file is.
type dataFlags struct {
	dataDir string
	file    string
}

func (f *dataFlags) register(c *cobra.Command, fileFlag string) {
	f.registerFolder(c)
	c.PersistentFlags().StringVar(&f.file, fileFlag, "", "keys file (default: keys.json in the data folder)")
}

// registerFolder is for commands that have nothing to do with keys.
func (f *dataFlags) registerFolder(c *cobra.Command) {
	c.PersistentFlags().StringVar(&f.dataDir, "data-dir", "", "data folder (default: lmserve in the user's state folder)")
}

// path of the keys file; "" where there is no data folder to have one.
func (f *dataFlags) path() (string, error) {
	switch {
	case f.file != "":
		return f.file, nil
	case f.dataDir == noDataDir:
		return "", nil
	}
	dir, err := f.folder()
	return filepath.Join(dir, "keys.json"), err
}

func (f *dataFlags) folder() (string, error) {
	if f.dataDir != "" {
		return f.dataDir, nil
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
