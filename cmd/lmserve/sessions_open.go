package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// mustFolder returns the data folder, without which the commands on stored sessions cannot work.
func (f *dataFlags) mustFolder() (string, error) {
	if f.dir == noDataDir {
		return "", usageError{fmt.Errorf("--data-dir is %s, expected a folder", noDataDir)}
	}
	return f.folder()
}

// openFolder opens the data folder, which must be there already.
func (f *dataFlags) openFolder(o sessionlog.Options) (sessionlog.Store, error) {
	dir, err := f.mustFolder()
	if err != nil {
		return nil, err
	}
	o.Existing = true
	return sessionlog.Open(dir, o)
}

// withStore calls do with the data folder's store, opened for reading.
func (f *dataFlags) withStore(do func(store sessionlog.Store) error) (err error) {
	store, err := f.openFolder(sessionlog.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}

// withManager calls do with a manager of the data folder's sessions, as a server has it. importing
// is told of its imports.
func (f *dataFlags) withManager(
	c *cobra.Command, flags modelFlags, importing session.Progress,
	do func(mg *session.Manager) error,
) (err error) {
	m, err := flags.load()
	if err != nil {
		return err
	}
	store, err := f.openFolder(sessionlog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	mg, err := session.NewManager(m, session.Options{Store: store, Threads: flags.threads,
		Importing: importing,
		Report:    func(err error) { fmt.Fprintln(c.ErrOrStderr(), "lmserve:", err) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mg.Drain(context.Background())) }()
	return do(mg)
}
