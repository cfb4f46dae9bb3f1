package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// With UserSessions, the server creates a session for each user and key on first use. Without
// UserSessions, it ignores a user that is not a session id.
func TestUsersHaveSessionsWhereTheServerWasToldSo(t *testing.T) {
	ring := newTestKeys(
		t,
		keys.Key{Name: "one"},
		keys.Key{Name: "two"},
		keys.Key{Name: "admin", Admin: true},
	)
	session := func(g *rig, key, user string) string {
		g.key = ring.token[key]
		resp := g.json(
			"/v1/completions",
			fmt.Sprintf(`{"model":"small","prompt":"x","max_tokens":1,"user":%q}`, user),
		)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Header.Get("X-Session-ID")
	}
	g := newOpenAIRig(t, Options{Keys: ring.Ring, UserSessions: true})
	ann := session(g, "one", "ann")
	require.NotEmpty(t, ann)
	require.Equal(t, ann, session(g, "one", "ann"))
	require.Equal(t, ann, session(g, "one", ann), "by its id")
	require.Empty(t, session(g, "one", ""))
	others := []string{
		ann,
		session(g, "one", "bob"),
		session(g, "two", "ann"),
		session(g, "admin", "ann"),
		session(g, "two", ann),
	}
	require.Len(
		t,
		slices.Compact(slices.Sorted(slices.Values(others))),
		len(others),
		"users of another key are others",
	)
	g.key = ring.token["two"]
	foreign := g.json("/v1/completions", `{"model":"small","prompt":"x"}`, "X-Session-ID", ann)
	requireProblem(t, foreign, api.ProblemSessionNotFound)
	g.key = ring.token["one"]
	info := decode[api.Session](t, g.do("GET", "/v1/sessions/"+ann, nil), http.StatusOK)
	require.Equal(t, api.Labels{"user": "ann"}, *info.Labels)
	require.Equal(t, http.StatusNoContent, g.do("DELETE", "/v1/sessions/"+ann, nil).StatusCode)
	require.NotEqual(
		t,
		ann,
		session(g, "one", "ann"),
		"a session that was deleted is made anew",
	)
	ann = session(g, "one", "ann")
	g.send("PATCH", "/v1/sessions/"+ann, `{"labels":{"user":"eve"}}`)
	require.Equal(t, ann, session(g, "one", "eve"), "the label decides")
	require.NotEqual(t, ann, session(g, "one", "ann"), "the label decides")

	plain := newOpenAIRig(t, Options{Keys: ring.Ring})
	require.Empty(t, session(plain, "one", "ann"))
	require.Empty(
		t,
		decode[api.SessionList](
			t,
			plain.do("GET", "/v1/sessions", nil),
			http.StatusOK,
		).Sessions,
	)
}

// The server finds the sessions of users by their labels, also after a restart.
func TestSessionsOfUsersOutliveTheServer(t *testing.T) {
	fake := newFake()
	serve := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		g := newRigOn(t, fake, Options{UserSessions: true}, l, &http.Transport{})
		return g.json(
			"/v1/completions",
			`{"model":"fake","prompt":"x","user":"ann"}`,
		).Header.Get(
			"X-Session-ID",
		)
	}
	require.Equal(t, serve(), serve())
	require.Len(t, fake.sessions, 1)
}

// slowCreate is a session manager whose method Create waits, for one user, until the channel made
// is closed.
type slowCreate struct {
	*fakeSessions
	user        string
	began, made chan struct{}
}

func (s *slowCreate) Create(
	ctx context.Context, who session.Caller, r session.CreateRequest,
) (session.Info, error) {
	if r.Labels["user"] == s.user {
		s.began <- struct{}{}
		<-s.made
	}
	return s.fakeSessions.Create(ctx, who, r)
}

// While the server creates the session of a user, other users do not wait. Requests of this user
// wait until the session exists or their client leaves.
func TestNewUserDelaysNoOtherUser(t *testing.T) {
	sessions := &slowCreate{newFake(), "ann", make(chan struct{}, 9), make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log, logs := logged()
	g := newRigOn(t, sessions, Options{UserSessions: true, Log: log}, l, &http.Transport{})
	finish := sync.OnceFunc(func() { close(sessions.made) })
	defer finish()
	complete := func(user string, most time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/completions",
			strings.NewReader(`{"model":"fake","prompt":"x","user":"`+user+`"}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contract.MediaJSON)
		resp, err := g.plain.Do(r)
		if err != nil {
			return "", err
		}
		return resp.Header.Get("X-Session-ID"), resp.Body.Close()
	}
	_, err = complete("bob", time.Minute)
	require.NoError(t, err)
	ann := make(chan string, 1)
	go func() {
		id, _ := complete("ann", time.Minute)
		ann <- id
	}()
	<-sessions.began
	for _, other := range []string{"bob", "eve"} {
		_, err = complete(other, 10*time.Second)
		require.NoError(t, err)
	}
	_, err = complete("ann", 100*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return gone(logs) == 1 }, 10*time.Second, time.Millisecond)
	finish()
	again, err := complete("ann", time.Minute)
	require.NoError(t, err)
	require.Equal(t, <-ann, again)
	require.NotEmpty(t, again)
}
