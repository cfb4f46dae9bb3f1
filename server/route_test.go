package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// elsewhere is a fake locator of sessions. It places all sessions on another server or, if the
// field only is set, just the session with this name.
type elsewhere struct {
	addr    string
	only    string
	unknown bool
	err     error
	lost    atomic.Bool
	asked   atomic.Pointer[string]
}

func (e *elsewhere) Session(_ context.Context, _, text string) (string, bool, error) {
	e.asked.Store(&text)
	if e.unknown || e.err != nil {
		return "", false, e.err
	}
	if e.only != "" && e.only != text {
		return "", true, nil
	}
	return e.addr, true, nil
}

func (e *elsewhere) Alive(string) bool { return !e.lost.Load() }

func (e *elsewhere) Fresh(string) string { return e.addr }

// allowed is an origin that CORS permits on the forwarding server but not on the receiving server.
const allowed = "https://elsewhere.example"

// twoServers returns a server that forwards requests, and the server that receives them.
func twoServers(t *testing.T) (near, far *rig, places *elsewhere) {
	far = newRig(t, Options{})
	places = &elsewhere{addr: far.url}
	return newRig(t, Options{
		Places: places, CORSOrigins: []string{allowed}, AllowedHosts: []string{"near.example"},
	}), far, places
}

func TestRequestsForSessionsElsewhereArePassedOn(t *testing.T) {
	near, far, places := twoServers(t)
	path := near.create(`{"settings":{"chunk":16}}`)
	require.Empty(t, near.fake.sessions, "it was made there")
	require.Len(t, far.fake.sessions, 1)

	body, text := io.Pipe() // Events arrive while the body is still open.
	go func() { _, _ = io.WriteString(text, strings.Repeat("x", 16)) }()
	events := readEvents(near.do("POST", path+"/score", body,
		"Content-Type", "text/plain", "Accept", contract.MediaEventStream))
	first, err := events.next()
	require.NoError(t, err)
	require.EqualValues(t, 16, as[api.ChunkEvent](t, first).Totals.Bytes)
	require.NoError(t, text.Close())
	events.all(t)

	resp := near.do("GET", path, nil, answer.HeaderRequestID, "seen-by-both", "Origin", allowed)
	require.Equal(t, "seen-by-both", resp.Header.Get(answer.HeaderRequestID))
	for name, values := range resp.Header {
		require.Len(t, values, 1, name)
	}
	require.EqualValues(t, 16, decode[api.Session](t, resp, http.StatusOK).Offset)
	r, err := http.NewRequest("GET", near.url+path, nil)
	require.NoError(t, err)
	r.Host = "near.example" // The receiving server does not allow this host name.
	r.Header.Set("Origin", near.url)
	named, err := near.plain.Do(r)
	require.NoError(t, err)
	require.NoError(t, named.Body.Close())
	require.Equal(t, http.StatusForbidden, named.StatusCode, "a page of another name")
	r.Header.Set("Origin", allowed)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	named, err = near.plain.Do(r)
	require.NoError(t, err)
	require.NoError(t, named.Body.Close())
	require.Equal(t, http.StatusOK, named.StatusCode)
	for _, method := range []string{"HEAD", "GET"} {
		require.Equal(t, http.StatusOK, near.do(method, path+"/snapshot", nil).StatusCode)
	}
	requireProblem(t, near.do("GET", "/v1/sessions/none", nil), api.ProblemSessionNotFound)
	requireProblem(t, near.json(path+"/complete", `{"max_tokens":-1}`), api.ProblemInvalidField)
	require.Equal(t, http.StatusOK, near.do("GET", "/v1/models", nil).StatusCode, "is told here")

	places.unknown = true
	resp = near.send("PUT", "/v1/sessions/news", "{}")
	require.Equal(t, http.StatusCreated, resp.StatusCode, "a name that there is not yet")
	require.Empty(t, near.fake.sessions)
}

// A malformed query is refused as on one server. Without the dropped parameter `learn=false`, the
// receiving server would learn the text.
func TestPassedOnQueryStaysAsSent(t *testing.T) {
	near, far, _ := twoServers(t)
	path := near.create("{}")
	for _, query := range []string{"learn=false;unit=line", "offset=5%", "learn=false%zz"} {
		requireProblem(t, near.text(path+"/score?"+query, "not to be learned"),
			api.ProblemInvalidParameter)
	}
	require.Zero(t, decode[api.Session](t, far.do("GET", path, nil), http.StatusOK).Offset)
}

// A completion in OpenAI's form names its session in the body. The server reads the body to find
// the session, and still forwards the body whole.
func TestCompletionForSessionElsewhereIsPassedOn(t *testing.T) {
	near, far, places := twoServers(t)
	path := far.create("{}")
	id, model := strings.TrimPrefix(path, "/v1/sessions/"), far.fake.Model().ID
	for _, prompt := range []string{"x", strings.Repeat("long ", 13_000)} {
		resp := near.json("/v1/completions", `{"model":"`+model+`","prompt":"`+prompt+
			`","max_tokens":1,"user":"`+id+`"}`)
		require.EqualValues(t, len(prompt), decode[api.OpenAICompletion](t, resp,
			http.StatusOK).Usage.PromptTokens)
		require.Equal(t, id, *places.asked.Load())
	}
	places.asked.Store(nil)
	require.Equal(t, http.StatusOK,
		near.json("/v1/completions", `{"model":"`+model+
			`","prompt":"x","max_tokens":1}`).StatusCode)
	require.Nil(t, places.asked.Load(), "one of no session is answered here")
}

func TestRequestIsPassedOnOnce(t *testing.T) {
	near, _, _ := twoServers(t)
	requireProblem(t, near.do("GET", "/v1/sessions/s-0001", nil, "Lmserve-Proxied", "1"),
		api.ProblemSessionNotFound)
	resp := near.json("/v1/sessions", "{}", "Lmserve-Proxied", "1")
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.Len(t, near.fake.sessions, 1)
}

func TestUnreachableServerIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	places := &elsewhere{addr: "http://" + l.Addr().String()}
	g := newRig(t, Options{Places: places})
	for _, resp := range []*http.Response{
		g.do("GET", "/v1/sessions/s", nil), g.text("/v1/sessions/s/score", "nothing of it is sent"),
	} {
		p := requireProblem(t, resp, api.ProblemOverloaded)
		require.Contains(t, *p.Detail, "cannot be reached")
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
	}
	places.err = errors.New("the database is away")
	requireProblem(t, g.do("GET", "/v1/sessions/s", nil), api.ProblemOverloaded)
}

// If the lease of the receiving server lapses, the forwarded request ends as if its connection had
// broken. The client cannot know how much text was accepted.
func TestRequestEndsWithItsServer(t *testing.T) {
	t.Parallel()
	far := newRig(t, Options{})
	places := &elsewhere{addr: far.url}
	log, logs := logged()
	near := newRig(t, Options{Places: places, Log: log})
	path := far.create(`{"settings":{"chunk":16}}`)
	body, text := io.Pipe()
	defer text.Close()
	go func() { _, _ = io.WriteString(text, strings.Repeat("x", 16)) }()
	r, err := http.NewRequest("POST", near.url+path+"/score", body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Accept", contract.MediaEventStream)
	resp, err := near.plain.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	events := readEvents(resp)
	_, err = events.next()
	require.NoError(t, err)
	places.lost.Store(true)
	_, err = events.next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	release := far.fake.hold(strings.TrimPrefix(path, "/v1/sessions/"))
	defer release()
	require.Eventually(t, func() bool { return !far.fake.sessions["s-0001"].busy.Load() },
		5*time.Second, time.Millisecond)
	resp, err = near.plain.Post(near.url+path+"/score", "text/plain", strings.NewReader("x"))
	if err == nil {
		resp.Body.Close()
	}
	require.ErrorIs(t, err, io.EOF, "no problem says that nothing was done")
	require.Eventually(t, func() bool {
		return logs.FilterField(zap.Int("status", http.StatusBadGateway)).Len() == 1
	}, 5*time.Second, time.Millisecond)
	cuts := logs.FilterMessage("forwarded request cut").All()
	require.Len(t, cuts, 1)
	require.Contains(t, cuts[0].ContextMap()["error"], "lease")
}
