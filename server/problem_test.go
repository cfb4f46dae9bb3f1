package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

func TestEveryProblemIsReachable(t *testing.T) {
	reach := map[api.ProblemType]func(g *rig, path string) *http.Response{
		api.ProblemInvalidParameter: func(g *rig, path string) *http.Response {
			return g.text(path+
				"/score?offset=-1", "x")
		},
		api.ProblemMalformedRequest: func(g *rig, path string) *http.Response {
			return raw(g.t, dial(g.t, g.addr), "GET / HTTP/1.1\r\nHost: "+
				"localhost\r\nContent-Length: many\r\n\r\n")
		},
		api.ProblemHeadersTooLarge: func(g *rig, path string) *http.Response {
			return g.do("GET", "/"+strings.Repeat("x", 2*limits.HeaderBytesMax), nil)
		},
		api.ProblemUnsupportedTransferEncoding: func(g *rig, path string) *http.Response {
			return raw(g.t, dial(g.t, g.addr), "POST / HTTP/1.1\r\nHost: "+
				"localhost\r\nTransfer-Encoding: gzip\r\n\r\n")
		},
		api.ProblemMalformedBody: func(g *rig,
			path string) *http.Response {
			return g.json("/v1/sessions", `{"seed":`)
		},
		api.ProblemBodyIncomplete: func(g *rig, path string) *http.Response {
			return cutOff(g, path,
				contract.MediaJSON)
		},
		api.ProblemUnauthorized: func(g *rig, path string) *http.Response {
			return g.do("GET", path, nil, "Authorization", "Bearer me")
		},
		api.ProblemKeySessionLimit: func(g *rig, path string) *http.Response {
			g.key = g.small
			g.create("{}")
			return g.json("/v1/sessions", "{}")
		},
		api.ProblemKeyRequestLimit: func(g *rig, _ string) *http.Response {
			g.key = g.small
			path := g.create("{}")
			g.t.Cleanup(g.fake.hold("s-0002"))
			go g.do("POST", path+"/complete", strings.NewReader("{}"), "Content-Type",
				contract.MediaJSON)
			require.Eventually(g.t, g.fake.sessions["s-0002"].busy.Load, 5*time.Second,
				time.Millisecond)
			return g.do("GET", path, nil)
		},
		api.ProblemKeyRateLimit: func(g *rig, _ string) *http.Response {
			g.key = g.small
			path := g.create("{}")
			require.Equal(g.t, http.StatusOK, g.json(path+"/complete",
				`{"max_tokens":60000}`).StatusCode)
			return g.text(path+"/score", "x")
		},
		api.ProblemOverloaded: func(g *rig, path string) *http.Response {
			g.fake.full = true
			return g.text(path+"/score", "x")
		},
		api.ProblemModelUnavailable: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.ModelLoadError{ID: "fake-0",
				Err: errors.New("open /some/path: no such file")}
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemAdminOnly: func(g *rig, _ string) *http.Response {
			return g.do("GET",
				"/v1/admin/backup", nil)
		},
		api.ProblemBackupBusy: func(g *rig, _ string) *http.Response {
			g.key = g.admin
			g.fake.fail = session.ErrBackupBusy
			return g.do("GET", "/v1/admin/backup", nil)
		},
		api.ProblemBackupGone: func(g *rig, _ string) *http.Response {
			g.key = g.admin
			return g.do("GET", "/v1/admin/backup", nil, "If-Match",
				`"0123456789abcdef0123456789abcdef"`, "Range", "bytes=5-")
		},
		api.ProblemNoBackup: func(g *rig, _ string) *http.Response {
			g.key = g.admin
			return g.do("GET", "/v1/admin/backup", nil)
		},
		api.ProblemNotFound: func(g *rig, path string) *http.Response {
			return g.do("GET",
				"/v2/sessions", nil)
		},
		api.ProblemSessionNotFound: func(g *rig,
			path string) *http.Response {
			return g.text("/v1/sessions/none/score", "x")
		},
		api.ProblemModelNotFound: func(g *rig, path string) *http.Response {
			return g.do("GET",
				"/v1/models/none", nil)
		},
		api.ProblemHostNotAllowed: func(g *rig, path string) *http.Response {
			return sendHost(g.t, g, "GET", path, "evil.example")
		},
		api.ProblemOriginNotAllowed: func(g *rig, path string) *http.Response {
			return g.do("GET", path, nil, "Origin", "https://evil.example")
		},
		api.ProblemMethodNotAllowed: func(g *rig, path string) *http.Response {
			return g.do("POST",
				path, nil)
		},
		api.ProblemNotAcceptable: func(g *rig, path string) *http.Response {
			return g.do("GET",
				path, nil, "Accept", "text/html")
		},
		api.ProblemBodyTimeout: func(g *rig, path string) *http.Response {
			r, w := io.Pipe()
			g.t.Cleanup(func() { _ = w.Close() })
			go func() { _, _ = io.WriteString(w, "begun, but") }()
			return g.do("POST", path+"/score", r, "Content-Type", "text/plain")
		},
		api.ProblemOffsetConflict: func(g *rig, path string) *http.Response {
			return g.text(path+
				"/score?offset=1", "x")
		},
		api.ProblemSessionBusy: func(g *rig, path string) *http.Response {
			g.fake.sessions["s-0001"].feeding.Lock()
			return g.text(path+"/score?wait=0s", "x")
		},
		api.ProblemSessionQueueFull: func(g *rig, path string) *http.Response {
			g.fake.sessions["s-0001"].feeding.Lock()
			return g.text(path+"/score", "x")
		},
		api.ProblemSessionDiffers: func(g *rig, path string) *http.Response {
			g.do("PUT", "/v1/sessions/web", nil)
			return g.send("PUT", "/v1/sessions/web", `{"settings":{"chunk":9}}`)
		},
		api.ProblemNameTaken: func(g *rig, path string) *http.Response {
			g.do("PUT", "/v1/sessions/web", nil)
			return g.json(path+"/fork", `{"name":"web"}`)
		},
		api.ProblemSessionFull: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.LimitError{Offset: 16, Max: 16}
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemBodyTooLarge: func(g *rig, path string) *http.Response {
			return g.text(path+
				"/score", strings.Repeat("x", 2000))
		},
		api.ProblemUnsupportedMediaType: func(g *rig, path string) *http.Response {
			return g.text(path+"/score", "x", "Content-Type", "image/png")
		},
		api.ProblemInvalidField: func(g *rig,
			path string) *http.Response {
			return g.json("/v1/sessions", `{"sed":1}`)
		},
		api.ProblemInternal: func(g *rig, path string) *http.Response {
			g.fake.fail = errors.New("disk on fire")
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemSessionLimit: func(g *rig, path string) *http.Response {
			g.fake.max = 1
			return g.json("/v1/sessions", "{}")
		},
		api.ProblemSessionShadow: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.ShadowError{ID: "s-0001", Of: "s-0000"}
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemSessionUnusable: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.UnusableError{ID: "s-0001", Err: errors.New("it is damaged")}
			return g.json(path+"/fork", "{}")
		},
		api.ProblemHistoryTrimmed: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.TrimmedError{FieldError: session.FieldError{Field: "at_offset",
				Found: "5", Want: "80 to 100"}}
			return g.json(path+"/fork", `{"at_offset":5}`)
		},
		api.ProblemImportDamaged: func(g *rig, path string) *http.Response {
			return g.do("POST", "/v1/sessions/import", strings.NewReader("no file"))
		},
		api.ProblemImportModel: func(g *rig, path string) *http.Response {
			return g.do("POST", "/v1/sessions/import", strings.NewReader(`{"Model":"other"}`),
				"Content-Type", contract.MediaTar)
		},
		api.ProblemKeyDiskLimit: func(g *rig, path string) *http.Response {
			g.fake.fail = &session.DiskLimitError{Used: 90, Limit: 100}
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemNoSpace: func(g *rig, path string) *http.Response {
			g.fake.fail = fmt.Errorf("%w: write /some/path", session.ErrNoSpace)
			return g.text(path+"/score", strings.Repeat("x", 40))
		},
		api.ProblemDraining: func(g *rig, path string) *http.Response {
			g.server.ready.Store(false)
			return g.do("GET", "/readyz", nil)
		},
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(problem.Kinds)),
		slices.Collect(maps.Keys(reach)))
	for kind, request := range reach {
		t.Run(strings.TrimPrefix(string(kind), "urn:lmserve:problem:"), func(t *testing.T) {
			ring := newTestKeys(t, keys.Key{Name: "tester"}, keys.Key{Name: "admin", Admin: true},
				keys.Key{Name: "small", Limits: keys.Limits{Sessions: 1, Requests: 1,
					BytesPerSecond: 1000}})
			g := newRig(t, Options{BodyIdleMax: 300 * time.Millisecond, ScoreBodyBytesMax: 1000,
				Keys:         ring.Ring,
				AllowedHosts: []string{"lm.example.org"}})
			g.key, g.small, g.admin = ring.token["tester"], ring.token["small"], ring.token["admin"]
			resp := request(g, g.create("{}"))
			p := requireProblem(t, resp, kind)
			require.Equal(t, problem.Kinds[kind].Title, p.Title)
			shownAs, err := json.Marshal(p)
			require.NoError(t, err)
			requireExample(t, "problem."+strings.TrimPrefix(string(kind), "urn:lmserve:problem:"),
				shown{Summary: p.Title}, contract.MediaProblem, shownAs)
			if resp.StatusCode == http.StatusServiceUnavailable ||
				resp.StatusCode == http.StatusTooManyRequests {
				require.NotEmpty(t, resp.Header.Get("Retry-After"))
			}
			if kind == api.ProblemInternal {
				require.NotContains(t, *p.Detail, "disk", "what went wrong inside is for the log")
				require.EqualValues(t, 16, *p.Offset, "one chunk was accepted")
			}
			if p.Detail != nil {
				require.NotContains(t, *p.Detail, "/some/path",
					"paths of the server are for the log")
			}
		})
	}
}

// cutOff announces a body of 100 bytes but sends only 40. Then it closes the sending side of the
// connection and returns the answer.
func cutOff(g *rig, path, accept string) *http.Response {
	g.t.Helper()
	client := &http.Client{Transport: &checkedTransport{t: g.t, base: cutTransport{g.addr},
		doc: document(g.t), router: router(g.t)}}
	r, err := http.NewRequest("POST", g.url+path+"/score",
		io.NopCloser(strings.NewReader(strings.Repeat("x", 40))))
	require.NoError(g.t, err)
	r.ContentLength = 100
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Accept", accept)
	if g.key != "" {
		r.Header.Set("Authorization", "Bearer "+g.key)
	}
	resp, err := client.Do(r)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// cutTransport is an http.RoundTripper that can send a body shorter than its Content-Length.
type cutTransport struct{ addr string }

func (c cutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.URL.RequestURI(),
		r.Host, r.ContentLength)
	_ = r.Header.Write(conn)
	fmt.Fprintf(conn, "\r\n%s", body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return nil, err
	}
	resp.Body = closers{resp.Body, conn}
	return resp, nil
}

// closers is a body whose Close also closes the connection.
type closers struct {
	io.ReadCloser
	conn net.Conn
}

func (c closers) Close() error { return errors.Join(c.ReadCloser.Close(), c.conn.Close()) }

func TestFieldErrorsNameFieldFoundAndExpected(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for _, c := range []struct {
		path, body             string
		field, found, expected string
	}{
		{"/v1/sessions", `{"settings":{"chunk":0}}`, "settings.chunk", "0",
			"an integer from 1 to 1024"},
		{"/v1/sessions", `{"settings":{"chunk":2.5}}`, "settings.chunk", "2.5",
			"an integer from 1 to 1024"},
		{"/v1/sessions", `{"settings":{"chunk":"8"}}`, "settings.chunk", `"8"`,
			"an integer from 1 to 1024"},
		{"/v1/sessions", `{"settings":{"p":1.5}}`, "settings.p", "1.5", "a number from 0 to 1"},
		{"/v1/sessions", `{"settings":{"gammas":[0.9,2]}}`, "settings.gammas[1]", "2",
			"a number from 0 to 1"},
		{"/v1/sessions", `{"settings":{"gammas":[]}}`, "settings.gammas", "[]",
			"1 to 8 values, each a number from 0 to 1"},
		{"/v1/sessions", `{"settings":{"gammas":[0.9,0.8]}}`, "settings.gammas", "2 values",
			"1 value, for the one bank of the model"},
		{"/v1/sessions", `{"settings":{"method":"magic"}}`, "settings.method", `"magic"`,
			`"sparse-meta", "dynamic-sgd", "dynamic-rms", "cache", "counts" or "static"`},
		{"/v1/sessions", `{"settings":{"lambda":1}}`, "settings.lambda", "1",
			"a number from 0 to less than 1"},
		{"/v1/sessions", `{"settings":{"cache_size":0}}`, "settings.cache_size", "0",
			"an integer from 1 to 65536"},
		{"/v1/sessions", `{"settings":{"rate":-0.5}}`, "settings.rate", "-0.5",
			"a number from 0 to 1000"},
		{"/v1/sessions", `{"settings":{"Chunk":8}}`, "settings.Chunk", "an unknown field",
			"an object with only the fields baseline, beta1, beta2, cache_size, chunk, " +
				"companion, companion_bytes, companion_static, decay, floor, gammas, lambda, " +
				"method, p, rate, skip_below, theta"},
		{"/v1/sessions", `{"settings":null}`, "settings", "null", "an object with only the " +
			"fields baseline, beta1, beta2, cache_size, chunk, companion, companion_bytes, " +
			"companion_static, decay, floor, gammas, lambda, method, p, rate, skip_below, theta"},
		{"/v1/sessions", `{"seed":-1}`, "seed", "-1", "an integer from 0 to 9007199254740991"},
		{"/v1/sessions", `{"labels":{"a":1}}`, "labels.a", "1",
			"a string of at most 256 characters"},
		{"/v1/sessions", `{"labels":{"":"x"}}`, "labels.", "a name of 0 characters",
			"1 to 64 characters"},
		{"/v1/sessions", `{"seed":1,"settings":{"p":0.5,"\u0070":0}}`, "settings.p",
			"a duplicate field", "the field once"},
		{"/v1/sessions", `[]`, "body", "[]", "an object with only the fields history, labels, " +
			"model, seed, settings, shadow_of, ttl_seconds"},
		{"/v1/sessions", `{"history":"none"}`, "history", `"none"`, `"full" or "tail"`},
		{path + "/fork", `{"at_offset":-1}`, "at_offset", "-1", "an integer from 0 to " +
			"9007199254740991"},
		{path + "/fork", `{"at_offset":7}`, "at_offset", "7", "0 to 0"},
		{path + "/fork", `{"seed":7}`, "seed", "an unknown field",
			"an object with only the fields at_offset, history, labels, name, ttl_seconds"},
		{path + "/fork", `{"labels":{"":"x"}}`, "labels.", "a name of 0 characters",
			"1 to 64 characters"},
		{path + "/score", `{}`, "body", "{}", "an object with one of the fields base64 or text"},
		{path + "/score", `{"text":"a","base64":"YQ=="}`, "body", `{"base64":"YQ==","text":"a"}`,
			"an object with one of the fields base64 or text"},
		{path + "/score", `{"base64":"?"}`, "base64", `"?"`, "a string in base64 with padding"},
		{path + "/complete", `{"top_p":0}`, "top_p", "0", "a number above 0 to 1"},
		{path + "/complete", `{"stop":[1]}`, "stop", "[1]",
			"a string of at most 256 characters or at most 32 values, each a string of at most " +
				"256 characters"},
		{path + "/complete", `{"commit":"some"}`, "commit", `"some"`, `"none", "prompt" or "all"`},
		{path + "/complete", `{"stream":1}`, "stream", "1", "true or false"},
		{path + "/complete", `{"prompt":"a","prompt_base64":"YQ=="}`, "prompt_base64",
			"prompt and prompt_base64", "only one of prompt and prompt_base64"},
	} {
		p := requireProblem(t, g.json(c.path, c.body), api.ProblemInvalidField)
		require.Equal(t, []string{c.field, c.found, c.expected}, []string{*p.Field, *p.Found,
			*p.Expected}, c.body)
	}
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions, 1, "nothing was made")
}

func TestParameterErrorsNameParameterFoundAndExpected(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	long := strings.Repeat("x", limits.SessionIDCharsMax+1)
	for _, c := range []struct{ method, path, field, found, expected string }{
		{"POST", path + "/score?offset=ten", "offset", `"ten"`, "an integer from 0 to " +
			"9007199254740991"},
		{"POST", path + "/score?offset=-1", "offset", "-1",
			"an integer from 0 to 9007199254740991"},
		{"POST", path + "/score?offset=99999999999999999999", "offset", `"99999999999999999999"`,
			"an integer from 0 to 9007199254740991"},
		{"POST", path + "/score?offset=1&offset=2", "offset", "2 values", "one value"},
		{"POST", path + "/score?ofset=0", "ofset", "an unknown parameter",
			"a parameter of this operation"},
		{"POST", path + "/score?logprobs=maybe", "logprobs", `"maybe"`, "true or false"},
		{"GET", "/v1/sessions?limit=0", "limit", "0", "an integer from 1 to 1000"},
		{"GET", "/v1/sessions?limit=", "limit", `""`, "an integer from 1 to 1000"},
		{"GET", "/v1/sessions/" + long, "id", problem.Shortened(`"` + long + `"`),
			"a string of 1 to 128 characters"},
	} {
		p := requireProblem(t, g.do(c.method, c.path, nil), api.ProblemInvalidParameter)
		require.Equal(t, []string{c.field, c.found, c.expected}, []string{*p.Field, *p.Found,
			*p.Expected}, c.path)
	}
}

func TestMalformedBodiesAreLocated(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for _, c := range []struct{ path, body, detail string }{
		{"/v1/sessions", `{"seed":1`, "The body is not valid JSON at byte 9: unexpected end " +
			"of JSON input."},
		{"/v1/sessions", `{"seed":1}{}`, "The body is not valid JSON at byte 11: invalid " +
			"character '{' after top-level value."},
		{"/v1/sessions", `{'seed':1}`, "The body is not valid JSON at byte 2: invalid " +
			"character '\\'' looking for beginning of object key string."},
		{path + "/score", "{\"text\":\"caf\xe9\"}", "Byte 12 of the body, 0xE9, is not UTF-8. " +
			"Send text that is not UTF-8 as base64."},
		{path + "/score", `{"text":"\ud83d"}`,
			`The escape at byte 9 of the body, \ud83d, is half of a surrogate pair, ` +
				`not a character.`},
		{path + "/score", `{"text":"ok \\ud83d \ud83d\ude00 \ude00"}`,
			`The escape at byte 33 of the body, \ude00, is half of a surrogate pair, ` +
				`not a character.`},
		{path + "/score", ` `, "The body is empty; a JSON object was expected."},
		{path + "/complete", ``, "The body is empty; a JSON object was expected."},
	} {
		p := requireProblem(t, g.json(c.path, c.body), api.ProblemMalformedBody)
		require.Equal(t, c.detail, *p.Detail, c.body)
	}
	require.Zero(t, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
	require.EqualValues(t, 4, decode[api.SummaryEvent](t,
		g.json(path+"/score", `{"text":"\ud83d\ude00"}`), http.StatusOK).Bytes)
}

// The JSON schema accepts 1e2 as an integer, but encoding/json refuses it. The error still names
// the field.
func TestIntegerInExponentFormIsFieldError(t *testing.T) {
	g := newRig(t, Options{})
	p := requireProblem(t, g.json("/v1/sessions", `{"settings":{"chunk":1e2}}`),
		api.ProblemInvalidField)
	require.Equal(t, "settings.chunk", *p.Field)
	require.Equal(t, "number 1e2", *p.Found)
}

func TestMethodNotAllowedSaysWhatIs(t *testing.T) {
	g := newRig(t, Options{})
	for path, allow := range map[string][]string{
		"/v1/sessions":         {"GET", "HEAD", "POST"},
		"/v1/sessions/a":       {"DELETE", "GET", "HEAD", "PATCH", "PUT"},
		"/v1/sessions/a/score": {"POST"},
		"/healthz":             {"GET", "HEAD"},
	} {
		resp := g.do("TRACE", path, nil)
		requireProblem(t, resp, api.ProblemMethodNotAllowed)
		require.Equal(t, allow, resp.Header.Values("Allow"), path)
	}
}

func TestOversizedBodies(t *testing.T) {
	g := newRig(t, Options{ScoreBodyBytesMax: 1000})
	path := g.create("{}")

	// A body whose known length exceeds the limit is refused unread. A body of unknown length is
	// read up to the limit, and the session keeps that text.
	p := requireProblem(t, g.text(path+"/score", strings.Repeat("x", 1001)),
		api.ProblemBodyTooLarge)
	require.Equal(t, "at most 1000", *p.Expected)
	require.Zero(t, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)

	unannounced := io.MultiReader(strings.NewReader(strings.Repeat("x", 5000)))
	p = requireProblem(t, g.do("POST", path+"/score", unannounced, "Content-Type", "text/plain"),
		api.ProblemBodyTooLarge)
	require.EqualValues(t, 1000, *p.Offset)
	require.EqualValues(t, 1000, decode[api.Session](t, g.do("GET", path, nil),
		http.StatusOK).Offset)
	require.Equal(t, http.StatusOK, g.text(path+"/score", strings.Repeat("x", 1000)).StatusCode,
		"the limit itself is allowed")

	huge := `{"text":"` + strings.Repeat("x", limits.JSONBodyBytesMax) + `"}`
	requireProblem(t, g.json(path+"/score", huge), api.ProblemBodyTooLarge)
	requireProblem(t, g.do("POST", path+"/complete", io.MultiReader(strings.NewReader(huge)),
		"Content-Type", "application/json"), api.ProblemBodyTooLarge)
}
