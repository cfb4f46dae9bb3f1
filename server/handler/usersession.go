package handler

import (
	"context"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// userSessions has the methods of a session manager that the type users needs.
type userSessions interface {
	Create(ctx context.Context, who session.Caller, r session.CreateRequest) (session.Info, error)
	Get(who session.Caller, id string) (session.Info, error)
	List(who session.Caller, after string, limit int,
		labels ...session.Label) (page []session.Info, next string, err error)
}

// userLabel is the name of the label that stores a session's user.
const userLabel = "user"

// users finds or creates one session for each user, model and key. The labels of the sessions are
// authoritative; the field byName is only a cache. The zero value is ready.
type users struct {
	mu struct {
		sync.Mutex
		byName map[userName]string // values: session ids
		// names whose session a request finds or creates; the channel is closed at the end
		busy map[userName]chan struct{}
	}
}

type userName struct{ key, model, user string }

// session returns the id of a user's session. It creates the session if none exists. If several
// sessions have the user's label, it returns the oldest. Requests with the same key, model and user
// wait for each other, until ctx ends.
func (u *users) session(
	ctx context.Context, sessions userSessions, who session.Caller, model, user string,
) (id string, err error) {
	name := userName{who.Key, model, user}
	id, release, err := u.take(ctx, name)
	if err != nil {
		return "", err
	}
	defer release()
	if id != "" {
		info, err := sessions.Get(who, id)
		if err == nil && info.Labels[userLabel] == user {
			return id, nil
		}
	}
	if id, err = labeled(sessions, who, model, user); err == nil && id == "" {
		labels := map[string]string{userLabel: user}
		var made session.Info
		made, err = sessions.Create(ctx, who, session.CreateRequest{Model: model, Labels: labels})
		id = made.ID
	}
	if err != nil {
		return "", err
	}
	u.remember(name, id)
	return id, nil
}

// take waits until no other request has taken the name. It returns the remembered id of the name's
// session, or "".
func (u *users) take(ctx context.Context, name userName) (id string, release func(), err error) {
	for {
		u.mu.Lock()
		taken := u.mu.busy[name]
		if taken == nil {
			defer u.mu.Unlock()
			return u.mu.byName[name], u.markLocked(name), nil
		}
		u.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
}

// markLocked marks a name as busy until release is called.
func (u *users) markLocked(name userName) (release func()) {
	done := make(chan struct{})
	if u.mu.busy == nil {
		u.mu.busy = map[userName]chan struct{}{}
	}
	u.mu.busy[name] = done
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.mu.busy, name)
		close(done)
	}
}

// remember stores the id of a name's session. If too many ids are stored, remember first removes
// all of them, because some belong to deleted sessions.
func (u *users) remember(name userName, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.byName == nil {
		u.mu.byName = map[userName]string{}
	}
	if len(u.mu.byName) >= limits.UsersRememberedMax {
		clear(u.mu.byName)
	}
	u.mu.byName[name] = id
}

// labeled returns the id of the caller's oldest session with this model and user label, or "".
func labeled(
	sessions userSessions, who session.Caller, model, user string,
) (id string, err error) {
	own := who
	own.Admin = false // an admin also sees other callers' sessions
	label := session.Label{Name: userLabel, Value: &user}
	for after := ""; ; {
		page, next, err := sessions.List(own, after, 1, label)
		switch {
		case err != nil:
			return "", err
		case len(page) > 0 && page[0].Model == model:
			return page[0].ID, nil
		case next == "":
			return "", nil
		}
		after = next
	}
}
