package handler

import (
	"context"
	"errors"
	"sync"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/middleware"
)

// namedSession is the session that a request names; one without an id is none.
type namedSession struct {
	id    string
	field string // of the request, in which the name is
}

// completionSession finds the session that a completion in OpenAI's form names: that of the header,
// or else that of the field `user`. A user that is the id of no session names one that is made on
// first use, if the server was told so, and otherwise none.
func (h *Handlers) completionSession(
	ctx context.Context, header, user *string,
) (namedSession, error) {
	if header != nil {
		return namedSession{*header, headerSession}, nil
	}
	if user == nil || *user == "" {
		return namedSession{}, nil
	}
	who := middleware.CallerOf(ctx)
	_, err := h.Sessions().Get(who, *user)
	switch {
	case err == nil:
		return namedSession{*user, "user"}, nil
	case !errors.Is(err, session.ErrNotFound):
		return namedSession{}, err
	case !h.UserSessions:
		return namedSession{}, nil
	}
	id, err := h.users.session(ctx, h.Sessions(), who, *user)
	return namedSession{id, "user"}, err
}

// userLabel is the label of the sessions that are made for users.
const userLabel = "user"

// users finds the sessions of users, each of whom belongs to a key, and makes those that there are
// not. The sessions' labels have it; the map is there to be quick. The zero value is ready.
type users struct {
	mu struct {
		sync.Mutex
		byName map[userName]string // ids of sessions
	}
}

// userName is a user as one key calls him.
type userName struct{ key, user string }

// session finds a user's session, or makes it. Of several that have the user's label it is the
// oldest.
func (u *users) session(
	ctx context.Context, sessions Sessions, who session.Caller, user string,
) (id string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name := userName{who.Key, user}
	if id = u.mu.byName[name]; id != "" {
		if _, err := sessions.Get(who, id); err == nil {
			return id, nil
		}
	}
	if id, err = labelled(sessions, who, user); err == nil && id == "" {
		labels := map[string]string{userLabel: user}
		var made session.Info
		made, err = sessions.Create(ctx, who, session.CreateRequest{Labels: labels})
		id = made.ID
	}
	if err != nil {
		return "", err
	}
	if u.mu.byName == nil {
		u.mu.byName = map[userName]string{}
	}
	u.mu.byName[name] = id
	return id, nil
}

// labelled finds the oldest session of a caller's own that has a user's label; "" if there is none.
func labelled(sessions Sessions, who session.Caller, user string) (id string, err error) {
	own := who
	own.Admin = false // an admin sees those of others, too
	for after := ""; ; {
		page, next, err := sessions.List(own, after, session.ListMax)
		if err != nil {
			return "", err
		}
		for _, info := range page {
			if info.Labels[userLabel] == user {
				return info.ID, nil
			}
		}
		if after = next; next == "" {
			return "", nil
		}
	}
}
