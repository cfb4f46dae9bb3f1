package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
)

// networkFlags locates sessions in a database and an object store, where they outlive the server's
// machine.
type networkFlags struct {
	store, objects string // URLs of the database and of the object store
}

const storeUsage = "URL of a PostgreSQL database for sessions instead of the data folder, " +
	"such as postgres://user@host/name;\n'lmserve migrate' creates its tables. One server at " +
	"a time may use the database; with --advertise, several servers may use it.\nA " +
	"password is safer in " +
	"PGPASSFILE or PGPASSWORD (default: none)"

func (f *networkFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.store, "store", "", storeUsage)
	flags.StringVar(&f.objects, "objects", "",
		"with --store, URL of the object store for the states of sessions: "+
			"s3://bucket?region=R\n"+
			"(in releases and builds with -tags s3), or file:///folder, which every server must "+
			"reach\n"+
			"(default: none)")
}

func (f *networkFlags) given() bool { return f.store != "" }

func (f *networkFlags) check() error {
	switch {
	case f.given() && f.objects == "":
		return usagef("--store is given without --objects, expected both")
	case !f.given() && f.objects != "":
		return usagef("--objects is given without --store, expected both")
	}
	return nil
}

// serverWait is how long a server waits for another server to release the database. The database
// needs less time to detect that a server's machine has failed.
const serverWait = 15 * time.Second

func (f *networkFlags) open(
	ctx context.Context, o postgres.Options,
) (*postgres.Store, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	o.Database, o.Objects, o.Terms = f.store, f.objects, session.TermsOf
	s, err := postgres.Open(ctx, o)
	switch {
	case errors.Is(err, storage.ErrInvalid):
		return nil, usagef("--store, --objects: %w", err)
	case err != nil:
		return nil, fmt.Errorf("--store, --objects: %w", err)
	}
	return s, nil
}

// where describes the location of sessions, for messages. It omits passwords.
func (f *networkFlags) where() string {
	return "the database " + plain(f.store) + " and the objects " + plain(f.objects)
}

// plain returns a URL without user and parameters.
func plain(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "whose URL is hidden because it may contain a password"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
