package handler

import (
	"context"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/session"
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
	}
}

type userName struct{ key, model, user string }

// session returns the id of a user's session. It creates the session if none exists. If several
// sessions have the user's label, it returns the oldest.
func (u *users) session(
	ctx context.Context, sessions userSessions, who session.Caller, model, user string,
) (id string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name := userName{who.Key, model, user}
	if id = u.mu.byName[name]; id != "" {
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
	if u.mu.byName == nil {
		u.mu.byName = map[userName]string{}
	}
	u.mu.byName[name] = id
	return id, nil
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
