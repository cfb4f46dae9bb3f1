package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

func TestEveryProblemOfTheseRoutesHasTheEnvelope(t *testing.T) {
	const body = `{"model":"fake","prompt":"x"}`
	ring := newTestKeys(
		t,
		keys.Key{Name: "k"},
		keys.Key{Name: "small", Limits: keys.Limits{BytesPerSecond: 1024, Requests: 1}},
	)
	type reach func(g *rig) *http.Response
	post := func(more ...string) reach {
		return func(g *rig) *http.Response { return g.json("/v1/completions", body, more...) }
	}
	failing := func(err error) reach {
		return func(g *rig) *http.Response {
			g.fake.fail = err
			return g.json("/v1/completions", body)
		}
	}
	for name, c := range map[string]struct {
		status           int
		kind, code, parm string
		do               reach
	}{
		"no key": {401, "invalid_request_error", "invalid_api_key", "Authorization",
			func(g *rig) *http.Response { g.key = ""; return g.json("/v1/completions", body) }},
		"bad key": {401, "invalid_request_error", "invalid_api_key", "",
			post("Authorization", "Bearer "+wrong(ring.token["k"]))},
		"models": {401, "invalid_request_error", "invalid_api_key", "",
			func(g *rig) *http.Response {
				return g.do("GET", "/v1/models", nil, "Authorization", "Bearer "+
					wrong(ring.token["k"]))
			}},
		"no session": {404, "invalid_request_error", "session_not_found", "X-Session-ID",
			post("X-Session-ID", "none")},
		"no model": {404, "invalid_request_error", "model_not_found", "model",
			func(g *rig) *http.Response {
				return g.json("/v1/completions",
					`{"model":"gpt","prompt":"x"}`)
			}},
		"tokenize": {404, "invalid_request_error", "model_not_found", "model",
			func(g *rig) *http.Response {
				return g.json("/tokenize",
					`{"model":"gpt","prompt":"x"}`)
			}},
		"method": {405, "invalid_request_error", "method_not_allowed", "",
			func(g *rig) *http.Response { return g.do("GET", "/v1/completions", nil) }},
		"accept": {406, "invalid_request_error", "not_acceptable", "Accept",
			post("Accept", "text/html")},
		"busy": {409, "invalid_request_error", "session_busy", "", failing(session.ErrBusy)},
		"too large": {413, "invalid_request_error", "body_too_large", "Content-Length",
			func(g *rig) *http.Response {
				return g.json("/v1/completions", strings.Repeat(" ", limits.JSONBodyBytesMax+1))
			}},
		"type": {415, "invalid_request_error", "unsupported_media_type", "Content-Type",
			post("Content-Type", "text/plain")},
		"rate": {429, "rate_limit_error", "rate_limit_exceeded", "", func(g *rig) *http.Response {
			g.key = ring.token["small"]
			g.completed(`{"model":"fake","prompt":"x","max_tokens":60000}`)
			return g.json("/v1/completions", body)
		}},
		"internal":   {500, "server_error", "internal", "", failing(io.ErrShortBuffer)},
		"overloaded": {503, "server_error", "overloaded", "", failing(session.ErrOverloaded)},
		"draining": {503, "server_error", "draining", "",
			func(g *rig) *http.Response {
				g.fake.draining = true
				return g.json("/v1/completions",
					body)
			}},
		"disk": {507, "server_error", "no_space", "", failing(session.ErrNoSpace)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{Keys: ring.Ring})
			g.key = ring.token["k"]
			resp := c.do(g)
			p := decode[api.Problem](t, resp, c.status)
			require.Equal(t, c.status, p.Status)
			require.NotNil(t, p.Error)
			require.NotEmpty(t, p.Error.Message)
			require.Equal(
				t,
				[]string{c.kind, c.code},
				[]string{string(p.Error.Type), p.Error.Code},
			)
			if c.parm != "" {
				require.Equal(t, c.parm, *p.Error.Param)
			}
			if c.status == 429 || c.status == 503 {
				require.NotEmpty(t, resp.Header.Get("Retry-After"))
			}
		})
	}
	g := newRig(t, Options{})
	require.Nil(
		t,
		requireProblem(
			t,
			g.do("GET", "/v1/sessions/none", nil),
			api.ProblemSessionNotFound,
		).Error,
		"other routes have none",
	)
}

// An error after the first event is sent as the last event of the stream.
func TestErrorInStreamHasEnvelope(t *testing.T) {
	g := newRig(t, Options{})
	g.fake.fail = session.ErrDraining
	raw, err := io.ReadAll(
		g.json("/v1/completions", `{"model":"fake","prompt":"x","stream":true}`).Body,
	)
	require.NoError(t, err)
	events := strings.Split(strings.TrimSpace(string(raw)), "\n\n")
	require.Len(t, events, 2)
	require.JSONEq(
		t,
		`{"error":{"message":"The server is shutting down","type":"server_error","param":null,"code":"draining"}}`,
		strings.TrimPrefix(events[1], "data: "),
	)
}

// Each invalid request gets status 400 and an error that names the wrong field. The request changes
// nothing.
func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	g := newOpenAIRig(t, Options{UserSessions: true})
	path := g.create("{}")
	g.text(path+"/score", numbered(1, 100))
	before := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	refused := 0
	refuse := func(route, body, param string) {
		t.Helper()
		refused++
		resp := g.json(route, body, "X-Session-ID", before.ID)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%.200s", body)
		p := decode[api.Problem](t, resp, http.StatusBadRequest)
		require.Equal(t, http.StatusBadRequest, p.Status)
		require.NotNil(t, p.Error, body)
		require.Equal(t, api.OpenAIInvalidRequest, p.Error.Type)
		require.NotEmpty(t, p.Error.Message)
		short := body[:min(len(body), 200)]
		if param == "" {
			require.Nil(t, p.Error.Param, short)
			require.Equal(t, "malformed_body", p.Error.Code, short)
			return
		}
		require.NotNil(t, p.Error.Param, "%s: %s", short, p.Error.Message)
		require.Equal(
			t,
			param,
			strings.FieldsFunc(*p.Error.Param, func(r rune) bool {
				return r == '[' ||
					r == '.'
			})[0],
			short,
		)
		require.Equal(t, "invalid_field", p.Error.Code, short)
		require.Contains(t, p.Error.Message, "expected", short)
	}
	long := strings.Repeat("x", limits.OpenAIPromptTokensMax)
	many := func(one string, n int) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	notNumbers := []string{`"1"`, `true`, `[]`, `{}`, `[1]`, `"x"`, `{"a":1}`}
	notIntegers := append(
		[]string{`1.5`, `-1`, `1e9`, `1e2`, `99999999999999999999`},
		notNumbers...)
	notBools := []string{`0`, `1`, `"true"`, `[]`, `{}`}
	for param, values := range map[string][]string{
		"model": {`1`, `""`, `[]`, `{}`, `true`, `"` + strings.Repeat("m",
			limits.OpenAIModelCharsMax+1) + `"`},
		"prompt": {
			`null`, `1`, `true`, `{}`, `[]`, `[[]]`, `[null]`, `["a",1]`, `[1,"a"]`, `[[1],"a"]`,
			`[[1],[]]`, `[1,[2]]`, `[[[1]]]`, `[-1]`, `[256]`, `[1.5]`, `["a",null]`,
			`[[1],[256]]`, `[1e1]`, `[true]`, `[{}]`, `"` + long + `x"`, `["` + long + `","x"]`,
			`"` + strings.Repeat("ñ", len(long)/2+1) + `"`,
			many(`"x"`, limits.OpenAIPromptsMax+1), many(`[1]`, limits.OpenAIPromptsMax+1),
			many(`1`, len(long)+1),
			`[` + many(`1`, len(long)/2+1) + `,` + many(`1`, len(long)/2) + `]`,
			many(`1`, 2*len(long)), many(`{}`, 2*len(long)),
		},
		"max_tokens": append([]string{fmt.Sprint(limits.OpenAISampledTokensMax + 1)},
			notIntegers...),
		"n": append([]string{`0`, fmt.Sprint(limits.OpenAITextsMax + 1)},
			notIntegers...),
		"best_of": append([]string{`0`, `2`}, notIntegers...),
		"logprobs": append([]string{fmt.Sprint(limits.OpenAILogprobsMax + 1)},
			notIntegers...),
		"seed": append([]string{`9007199254740992`},
			slices.DeleteFunc(slices.Clone(notIntegers), func(s string) bool {
				return s == "1e9" ||
					s == "1e2"
			})...),
		"temperature": append([]string{`-0.1`, `2.1`, `100`, `1e400`}, notNumbers...),
		"top_p":       append([]string{`0`, `-1`, `1.01`}, notNumbers...),
		"stop": {`1`, `true`, `{}`, `[1]`, `[null]`, `["` + strings.Repeat(`a","`,
			limits.StopStringsMax) + `a"]`, `["` + strings.Repeat("x", limits.StopCharsMax+1) +
			`"]`, `[["a"]]`},
		"stream": notBools,
		"echo":   notBools,
		"user": {`1`, `true`, `[]`, `{}`, `"` + strings.Repeat("u",
			limits.OpenAIUserCharsMax+1) + `"`},
		"suffix":            {`"` + strings.Repeat("x", 65537) + `"`, `1`, `[]`, `{}`, `true`},
		"presence_penalty":  append([]string{`0.1`, `-2`, `1`}, notNumbers...),
		"frequency_penalty": append([]string{`0.1`, `-2`, `1`}, notNumbers...),
		"logit_bias":        {`{"50256":-100}`, `[]`, `1`, `"x"`},
		"stream_options": {`{}`, `{"include_usage":true}`, `1`, `[]`, `"x"`,
			`{"include_usage":1}`, `{"x":1}`, `{"include_obfuscation":true}`},
		"messages": {`[{"role":"user","content":"x"}]`},
		"commit":   {`"some"`, `""`, `true`, `1`, `{}`},
		"offset": append([]string{`0`, `9007199254740992`},
			slices.DeleteFunc(slices.Clone(notIntegers), func(s string) bool {
				return s == "1e2" ||
					s == "1e9"
			})...),
		"top_k": append([]string{`-2`, `1048577`},
			slices.DeleteFunc(slices.Clone(notIntegers),
				func(s string) bool { return s == "-1" })...),
		"min_p":              append([]string{`-0.1`, `1.01`}, notNumbers...),
		"dry":                append([]string{`-0.1`, `10.1`}, notNumbers...),
		"repetition_penalty": append([]string{`0.9`, `1.1`}, notNumbers...),
		"suggest":            {`1`, `true`, `"word"`, `[]`},
		"functions":          {`null`},
	} {
		for _, value := range values {
			fields := map[string]string{"model": `"small"`, "prompt": `"x"`, param: value}
			var body []string
			for name, value := range fields {
				body = append(body, fmt.Sprintf("%q:%s", name, value))
			}
			refuse("/v1/completions", "{"+strings.Join(body, ",")+"}", param)
		}
	}
	refuse("/v1/completions", `{"model":"small"}`, "prompt")
	for fields, param := range map[string]string{
		`"commit":"all","n":2`:                 "n",
		`"commit":"prompt","prompt":["x","y"]`: "prompt",
		`"suggest":{"unit":"page"}`:            "suggest",
		`"suggest":{"min_probability":2}`:      "suggest",
		`"suggest":{"within_ms":10001}`:        "suggest",
		`"suggest":{"n":2}`:                    "suggest",
		`"suggest":{},"n":21`:                  "n",
		`"suggest":{},"prompt":["x","y"]`:      "prompt",
		`"suggest":{},"commit":"prompt"`:       "commit",
		`"suggest":{},"suffix":"y"`:            "suffix",
		`"suggest":{},"echo":true`:             "echo",
		`"suggest":{},"logprobs":0`:            "logprobs",
	} {
		if !strings.Contains(fields, `"prompt":`) {
			fields += `,"prompt":"x"`
		}
		refuse("/v1/completions", "{"+fields+"}", param)
	}
	refuse("/v1/completions", `{"model":"small","prompt":["a","b"],"n":65}`, "n")
	refuse(
		"/v1/completions",
		`{"model":"small","prompt":["a","b"],"max_tokens":32769}`,
		"max_tokens",
	)
	refuse("/v1/completions", `{"model":"small","prompt":"x","prompt":"y"}`, "prompt")
	refuse("/v1/completions", `{"model":"small","prompt":"x","n":2,"best_of":3}`, "best_of")
	refuse(
		"/v1/completions",
		`{"model":"small","prompt":"x","max_tokens":65536,"logprobs":20}`,
		"logprobs",
	)
	refuse(
		"/v1/completions",
		`{"model":"small","prompt":"`+long+`","n":128,"max_tokens":0,"echo":true}`,
		"n",
	)
	for _, body := range []string{``, ` `, `{`, `x`, `{"model":"small","prompt":"x"`,
		`{"model":"small","prompt":"x"}{}`, `{"model":"small",}`,
		"{\"model\":\"small\",\"prompt\":\"\xff\"}", `{"model":"small","prompt":"\ud83d"}`,
		`{'model':'small'}`} {
		refuse("/v1/completions", body, "")
	}
	for _, body := range []string{`[]`, `"x"`, `1`, `null`, `true`} {
		refuse("/v1/completions", body, "body")
	}
	for _, value := range []string{`null`, `1`, `[]`, `{}`, `["x"]`} {
		refuse("/tokenize", fmt.Sprintf(`{"prompt":%s}`, value), "prompt")
	}
	refuse(
		"/tokenize",
		`{"prompt":"`+strings.Repeat("x", limits.TokenizeCharsMax+1)+`"}`,
		"prompt",
	)
	refuse("/tokenize", `{}`, "prompt")
	refuse("/tokenize", `{"prompt":"x","messages":[]}`, "messages")
	for _, value := range []string{`null`, `1`, `"x"`, `{}`, `["x"]`, `[256]`, `[-1]`, `[1.5]`,
		`[[1]]`, many("1", limits.OpenAIPromptTokensMax+1)} {
		refuse("/detokenize", fmt.Sprintf(`{"tokens":%s}`, value), "tokens")
	}
	refuse("/detokenize", `{}`, "tokens")
	require.GreaterOrEqual(t, refused, 200)
	require.Equal(
		t,
		before,
		decode[api.Session](t, g.do("GET", path, nil), http.StatusOK),
		"not even its last use",
	)
	require.Len(
		t,
		decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK).Sessions,
		1,
	)
}

// A body of many tokens must be parsed with about the memory that the server reserves beforehand.
// Garbage counts as memory.
func TestBodyOfManyTokensTakesReservedMemory(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	many := "[" + strings.Repeat("1,", limits.OpenAIPromptTokensMax-1) + "1]"
	for path, body := range map[string]string{
		"/detokenize":     `{"tokens":` + many + `}`,
		"/v1/completions": `{"model":"fake","max_tokens":0,"prompt":` + many + `}`,
	} {
		r := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", contract.MediaJSON)
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.router.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		need := limits.JSONReadFactor*len(
			body,
		) + limits.JSONManyTokenBytes*limits.OpenAIPromptTokensMax
		t.Logf("%s: %d bytes, %d were taken", path, after.TotalAlloc-before.TotalAlloc, need)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(need*5/4))
	}
	require.NoError(t, s.Drain(t.Context()))
}
