package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
)

const (
	// connectPatience is how long a request waits for an overloaded server.
	connectPatience = time.Minute
	// unnamedTTLSeconds is the lifetime of an unnamed session if the command that created it could
	// not delete it.
	unnamedTTLSeconds = 24 * 60 * 60
)

func (c *connection) client() (*client.Client, error) {
	cl, err := client.New(c.URL, client.WithHTTPClient(c.HTTP), client.WithKey(c.Key),
		client.WithPatience(connectPatience))
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return cl, nil
}

// of sets the model of a request to a remote server. For a server in this process, the model of the
// flags is already the default.
func (f *connectFlags) of(r client.SessionRequest) client.SessionRequest {
	if f.server != "" && f.model.path != "" {
		r.Model = &f.model.path
	}
	return r
}

// openSession finds a session by name or id, or creates a session with the name. If the name is "",
// it creates a temporary session. A new session gets the parameter seed. An existing session may
// have any seed, unless r has one. The caller calls done, which deletes a temporary session.
func openSession(
	ctx context.Context, cl *client.Client, name string, r client.SessionRequest, seed uint64,
) (s client.Session, done func() error, err error) {
	if name != "" {
		keep := func() error { return nil }
		s, err := cl.GetSession(ctx, name)
		switch {
		case client.Is(err, client.ProblemSessionNotFound):
			r.Seed = &seed
		case err != nil:
			return s, keep, err
		case r.Settings == nil && r.Model == nil:
			// EnsureSession accepts only a name, but here name may also be the session's id.
			if r.Seed != nil && *r.Seed != s.Seed {
				err = usagef("--seed is %d, expected %d, the seed of session %s", *r.Seed, s.Seed,
					name)
			}
			return s, keep, err
		}
		s, _, err = cl.EnsureSession(ctx, name, r)
		return s, keep, err
	}
	r.Seed, r.History, r.TTLSeconds = &seed, new(client.HistoryTail), new(int64(unnamedTTLSeconds))
	s, err = cl.CreateSession(ctx, r)
	return s, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), localDrainMax)
		defer cancel()
		err := cl.DeleteSession(ctx, s.ID)
		if client.Is(err, client.ProblemSessionNotFound) {
			return nil
		}
		return err
	}, err
}

// withSession calls its parameter `do` with the session that the flags name. Without a name it uses
// a new session, which it deletes afterwards. Any new session gets the parameter seed.
func (f *connectFlags) withSession(
	c *cobra.Command, r client.SessionRequest, seed uint64,
	do func(*client.Client, client.Session) error,
) (err error) {
	conn, err := f.connect(c)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, conn.Close()) }()
	cl, err := conn.client()
	if err != nil {
		return err
	}
	s, done, err := openSession(c.Context(), cl, f.session, f.of(r), seed)
	if err != nil {
		return flagError(err)
	}
	defer func() { err = cmp.Or(err, done()) }()
	if conn.Shadow != "" {
		if s, err = withShadow(c.Context(), cl, s, conn.Shadow); err != nil {
			return flagError(err)
		}
	}
	return do(cl, s)
}

// joinedUnlessEnded joins err and tidying, the error of the cleanup. If a signal ended the work,
// joinedUnlessEnded returns only err.
func joinedUnlessEnded(err, tidying error) error {
	var ended signalError
	if errors.Is(err, context.Canceled) || errors.As(err, &ended) {
		return err
	}
	return errors.Join(err, tidying)
}
