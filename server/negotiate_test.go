package server

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
)

func TestAnswerFollowsAccept(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}") + "/score"
	for _, c := range []struct{ accept, want string }{
		{"", contract.MediaJSON},
		{"*/*", contract.MediaJSON},
		{"application/*", contract.MediaJSON},
		{"application/json", contract.MediaJSON},
		{"APPLICATION/JSON", contract.MediaJSON},
		{"text/event-stream", contract.MediaEventStream},
		{"text/*", contract.MediaEventStream},
		{"text/event-stream, */*", contract.MediaEventStream},
		{"*/*, text/event-stream", contract.MediaEventStream},
		{"application/x-ndjson", contract.MediaNDJSON},
		{"application/x-ndjson;q=0.5, application/json;q=0.4", contract.MediaNDJSON},
		{"application/json;q=0, */*", contract.MediaNDJSON},
		{"application/json;q=0, application/x-ndjson;q=0, */*;q=0.1", contract.MediaEventStream},
		{"image/png, text/event-stream;charset=utf-8;q=0.3", contract.MediaEventStream},
		{"text/html", ""},
		{"image/*", ""},
		{"application/json;q=0", ""},
		{"*/*;q=0", ""},
		{"application/json;q=nonsense", ""},
		{"nonsense", ""},
	} {
		headers := []string{"Accept", c.accept}
		resp := g.text(path, "text", headers...)
		if c.want == "" {
			p := requireProblem(t, resp, api.ProblemNotAcceptable)
			require.Equal(t, "application/json, application/x-ndjson or text/event-stream",
				*p.Expected)
			continue
		}
		require.Equal(t, http.StatusOK, resp.StatusCode, c.accept)
		require.Equal(t, c.want, resp.Header.Get("Content-Type"), c.accept)
		// the session is busy until the answer has ended
		_, err := io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
	}
}

func TestUnacceptableRequestChangesNothing(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	requireProblem(t, g.text(path+"/score", "text", "Accept", "image/png"),
		api.ProblemNotAcceptable)
	requireProblem(t, g.do("POST", "/v1/sessions", nil, "Accept", "image/png"),
		api.ProblemNotAcceptable)
	require.Zero(t, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions, 1)
}

func TestBodiesOfOtherKindsAreRefused(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for _, c := range []struct{ path, header, value string }{
		// The media type that curl -d sends.
		{path + "/score", "Content-Type", "application/x-www-form-urlencoded"},
		{path + "/score", "Content-Type", "text/html"},
		{path + "/score", "Content-Type", "text/plain; charset=utf-16"},
		{path + "/score", "Content-Type", "text/plain; charset"},
		{path + "/score", "Content-Encoding", "br"},
		{path + "/complete", "Content-Encoding", "gzip"},
		{path + "/complete", "Content-Type", "text/plain"},
		{"/v1/sessions", "Content-Type", "text/plain"},
		{"/v1/sessions", "Content-Type", "application/x-www-form-urlencoded"},
	} {
		resp := g.json(c.path, `{"text":"x"}`, c.header, c.value, "User-Agent", "curl/8.5.0")
		p := requireProblem(t, resp, api.ProblemUnsupportedMediaType)
		require.Equal(t, c.header, *p.Field)
	}
	r, err := http.NewRequest("POST", g.url+path+"/score", strings.NewReader("gzip of gzip"))
	require.NoError(t, err)
	r.Header = http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"identity", "gzip"}}
	resp, err := g.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	requireProblem(t, resp, api.ProblemUnsupportedMediaType)
	require.Zero(t, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
}

// `curl -d` declares every body a form. The error states the correct curl options, and a request
// with these options succeeds.
func TestCurlFormBodyGetsHint(t *testing.T) {
	g := newRig(t, Options{})
	session := g.create("{}")
	const form = "application/x-www-form-urlencoded"
	for path, c := range map[string]struct{ says, media, body string }{
		session + "/score": {`-H 'Content-Type: text/plain' --data-binary 'TEXT'`, "text/plain",
			"hi"},
		"/v1/sessions": {`-H 'Content-Type: application/json' -d 'JSON'`, contract.MediaJSON, "{}"},
		"/tokenize": {`-H 'Content-Type: application/json' -d 'JSON'`, contract.MediaJSON,
			`{"prompt":"hi"}`},
		"/v1/sessions/import": {
			`-H 'Content-Type: application/x-tar' --data-binary @FILE`, contract.MediaTar, "{}",
		},
	} {
		resp := g.do("POST", path, strings.NewReader(c.body), "Content-Type", form, "User-Agent",
			"curl/8.5.0")
		p := requireProblem(t, resp, api.ProblemUnsupportedMediaType)
		require.Equal(t, strconv.Quote(form), *p.Found)
		require.Contains(t, *p.Detail, c.says)
		resp = g.do("POST", path, strings.NewReader(c.body), "Content-Type", c.media)
		require.NotEqual(t, http.StatusUnsupportedMediaType, resp.StatusCode, path)
	}
}

// An operation that accepts only JSON treats a body without Content-Type as JSON.
func TestBodyWithoutContentTypeHasOperationsType(t *testing.T) {
	g := newRig(t, Options{})
	made := decode[api.Session](t, g.do("POST", "/v1/sessions", strings.NewReader(`{"seed":7}`)),
		http.StatusCreated)
	require.EqualValues(t, 7, made.Seed)
	resp := g.do("POST", "/v1/sessions", strings.NewReader("seed=7"))
	requireProblem(t, resp, api.ProblemMalformedBody)
	sum := g.do("POST", "/v1/sessions/"+made.ID+"/score", strings.NewReader(`{"text":"x"}`))
	require.EqualValues(t, 12, decode[api.SummaryEvent](t, sum, http.StatusOK).Bytes, "plain bytes")
}

func TestIgnoredParameterIsRefused(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for query, field := range map[string]string{
		"logprobs=true": "logprobs", "text=true": "text", "text=false": "text",
		"threshold=0.5": "threshold", "unit=line&threshold=0.5": "threshold",
		"learn=false&threshold=0.5": "threshold",
	} {
		p := requireProblem(t, g.text(path+"/score?"+query, "x"), api.ProblemInvalidParameter)
		require.Equal(t, field, *p.Field, query)
	}
	require.Zero(t, g.get(path).Offset)
}
