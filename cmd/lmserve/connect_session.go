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
	// connectPatience is how long a request waits for a server that has too much to do.
	connectPatience = time.Minute
	// unnamedTTLSeconds is how long a session without a name outlives a command that could not
	// delete it.
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

// of is the request for a session on the model that the flags name at a server. In this process the
// model is the only one, or the first.
func (f *connectFlags) of(r client.SessionRequest) client.SessionRequest {
	if f.server != "" && f.model.path != "" {
		r.Model = &f.model.path
	}
	return r
}

// openSession finds the session of a name or an id, or makes the one of the name. Without a name it
// makes one that done deletes. The caller calls done.
func openSession(
	ctx context.Context, cl *client.Client, name string, r client.SessionRequest,
) (s client.Session, done func() error, err error) {
	if name != "" {
		keep := func() error { return nil }
		if r.Settings == nil && r.Model == nil {
			// Then any session will do, one that only its id names, too.
			s, err := cl.GetSession(ctx, name)
			if !client.Is(err, client.ProblemSessionNotFound) {
				return s, keep, err
			}
		}
		s, _, err := cl.EnsureSession(ctx, name, r)
		return s, keep, err
	}
	r.History, r.TTLSeconds = new(client.HistoryTail), new(int64(unnamedTTLSeconds))
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

// withSession does something with the session that the flags name, or with a new one that is gone
// afterwards.
func (f *connectFlags) withSession(
	c *cobra.Command, r client.SessionRequest, do func(*client.Client, client.Session) error,
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
	s, done, err := openSession(c.Context(), cl, f.session, f.of(r))
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

// joinedUnlessEnded joins an error with that of tidying up. Where a signal has ended the work, that
// alone counts.
func joinedUnlessEnded(err, tidying error) error {
	var ended signalError
	if errors.Is(err, context.Canceled) || errors.As(err, &ended) {
		return err
	}
	return errors.Join(err, tidying)
}
