package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// badInput is a request that the server must refuse, with a problem of the given kind about the
// given field.
type badInput struct {
	method, path, media, accept, body string
	kind                              api.ProblemType
	field                             string // "" for a problem without a field
}

func (b badInput) String() string {
	return fmt.Sprintf("%s %.120s (%s -> %s) %.120s", b.method, b.path, b.media, b.accept, b.body)
}

var jsonRoutes = []badInput{
	{method: "POST", path: "/v1/sessions"},
	{method: "PUT", path: "/v1/sessions/other"},
	{method: "PATCH", path: "/v1/sessions/web"},
	{method: "POST", path: "/v1/sessions/web/fork"},
	{method: "POST", path: "/v1/sessions/web/score"},
	{method: "POST", path: "/v1/sessions/web/complete"},
	{method: "POST", path: "/v1/completions"},
	{method: "POST", path: "/tokenize"},
	{method: "POST", path: "/detokenize"},
}

// badQueries returns requests to score text, each with a bad query parameter. In the table, the
// outer key is a valid beginning of the query. Each inner string lists bad values of a parameter,
// and "_" means an empty value.
func badQueries() (all []badInput) {
	const lines, flags = "unit=line&", "unit=line&learn=unflagged&"
	for before, values := range map[string]map[string]string{
		"": {
			"unit":     "_ word Line lines line,chunk 1",
			"learn":    "_ no 0 True unflagged flagged",
			"tokens":   "_ yes 2 true",
			"text":     "_ true false maybe",
			"offset":   "_ -1 1.5 abc 9007199254740992 0x10 99999999999999999999",
			"logprobs": "_ yes 2",
			"updates":  "_ yes 2",
			// 3 is bad because logprobs is not set
			"top_logprobs": "_ -1 21 x 1.5 3",
			"wait":         "_ 10 s -1s 1h 1.5s 601s 11m 10s10s %201s 9999999s 600001ms",
			"threshold":    "_ 0.5 abc",
			"unti":         "line",
			"Learn":        "false",
			"stream":       "true",
			"seed":         "1",
		},
		lines: {
			"logprobs": "true", "tokens": "_ yes", "text": "_ yes 2", "threshold": "0.5",
			"learn": "_ maybe", "unit": "chunk",
		},
		flags:                            {"threshold": "_ 0 -1 1.5 abc NaN Inf 1e400 0x1"},
		"offset=1&wait=1s&tokens=false&": {"offset": "1", "wait": "1s", "tokens": "false"},
	} {
		for field, found := range values {
			for _, value := range strings.Fields(found) {
				query := before + field + "=" + strings.TrimPrefix(value, "_")
				for _, accept := range []string{
					contract.MediaJSON, contract.MediaNDJSON, contract.MediaEventStream,
				} {
					all = append(all, badInput{
						"POST", "/v1/sessions/web/score?" + query, textBody, accept, "some text",
						api.ProblemInvalidParameter, field,
					})
				}
			}
		}
	}
	for query, field := range map[string]string{
		"logprobs=true": "logprobs", "updates=true": "updates",
	} {
		all = append(all, badInput{
			"POST", "/v1/sessions/web/score?" + query, textBody, contract.MediaJSON, "some text",
			api.ProblemInvalidParameter, field,
		})
	}
	for _, query := range []string{"learn=false;unit=line", "offset=5%", "learn=false%zz"} {
		all = append(all, badInput{
			"POST", "/v1/sessions/web/score?" + query, textBody, contract.MediaJSON, "some text",
			api.ProblemInvalidParameter, "",
		})
	}
	return append(all, badInput{
		"POST", "/v1/sessions/web/score?updates=true&learn=false", textBody, contract.MediaNDJSON,
		"some text", api.ProblemInvalidParameter, "updates",
	})
}

// badNames returns requests with invalid session names, in every place where a request can have a
// name. It also returns requests with other bad parameters.
func badNames() (all []badInput) {
	parameter := func(method, path, media, body, field string) {
		all = append(all, badInput{
			method, path, media, "", body, api.ProblemInvalidParameter, field,
		})
	}
	escape := strings.NewReplacer(" ", "%20", "é", "%C3%A9")
	for _, name := range []string{
		"import", "Web", "-web", ".web", "_web", "we b", "wéb", "web!", "a,b",
		strings.Repeat("x", limits.SessionNameCharsMax+1), "00000000-0000-7000-8000-000000000000",
	} {
		in := escape.Replace(name)
		parameter("PUT", "/v1/sessions/"+in, contract.MediaJSON, "{}", "id")
		parameter("POST", "/v1/sessions/import?name="+in, contract.MediaTar, "x", "name")
		all = append(all, field("POST", "/v1/sessions/web/fork", "name", fmt.Sprintf("%q", name)))
	}
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=x", "limit=", "after=", "label=", "lable=a",
		"label=a&label=b", "label=" + strings.Repeat("x", 322), "after=" + strings.Repeat("x", 129),
	} {
		name, _, _ := strings.Cut(query, "=")
		parameter("GET", "/v1/sessions?"+query, "", "", name)
	}
	for of, queries := range map[string][]string{
		"events": {
			"unit=word", "text=2", "tokens=true", "top_logprobs=3", "top_logprobs=21", "offset=-1",
			"updates=x", "learn=true", "wait=1s",
		},
		"text": {"offset=-1", "length=0", "length=1048577", "lenght=1", "offset=x"},
		"scores": {"offset=-1", "length=0", "length=16777217", "points=0", "points=4097",
			"unit=line"},
	} {
		for _, query := range queries {
			name, _, _ := strings.Cut(query, "=")
			parameter("GET", "/v1/sessions/web/"+of+"?"+query, "", "", name)
		}
	}
	parameter("GET", "/v1/sessions/web/events?unit=line&logprobs=true", "", "", "logprobs")
	for _, of := range []string{"", "/snapshot", "/events", "/text", "/scores"} {
		parameter("GET", "/v1/sessions/"+strings.Repeat("x", 129)+of, "", "", "id")
	}
	return all
}

// field returns a request whose JSON body has one field with a bad value. The parameter name is the
// path of the fault. If the path is "a.b", the body's field is "a", and the fault is inside its
// value.
func field(method, path, name, value string) badInput {
	outer, _, _ := strings.Cut(name, ".")
	body := fmt.Sprintf("{%q:%s}", outer, value)
	return badInput{method, path, contract.MediaJSON, "", body, api.ProblemInvalidField, name}
}

// badFields returns requests whose JSON body has a field with a bad value.
func badFields() (all []badInput) {
	const notObject, notInteger = ` 1 "x" [] true`, ` -1 1.5 "1" true [] {} 9007199254740992 1e400`
	long := fmt.Sprintf(` {"a":%q}`, strings.Repeat("x", limits.LabelValueCharsMax+1))
	var names []string
	for i := range limits.LabelsMax + 1 {
		names = append(names, fmt.Sprintf(`"l%d":"x"`, i))
	}
	many := " {" + strings.Join(names, ",") + "}"
	for _, route := range []struct {
		method, path string
		fields       map[string]string
	}{
		{"POST", "/v1/sessions", map[string]string{
			"settings": notObject, "seed": notInteger, "labels": notObject + many,
			"labels.a": `{"a":1} {"a":null}` + long, "ttl_seconds": notInteger + ` 31536001`,
			"history": `1 "none" null ""`, "name": `"web"`, "Seed": `1`,
		}},
		{"PATCH", "/v1/sessions/web", map[string]string{
			"labels": notObject + many, "labels.a": `{"a":1} {"a":[]}` + long,
			"labels.":     `{"":"x"}`,
			"ttl_seconds": notInteger + ` 31536001`, "seed": `1`, "settings": `{}`,
			"name":    `"X" 1 [] {} "import"`,
			"history": `"full"`,
		}},
		{"POST", "/v1/sessions/web/fork", map[string]string{
			"at_offset": notInteger + ` 100000`, "labels": notObject + many,
			"labels.a": `{"a":1}` + long, "name": `1 "" null []`, "ttl_seconds": notInteger,
			"history": `1 "none"`, "settings": `{}`, "seed": `1`,
		}},
		{"POST", "/v1/sessions/web/score", map[string]string{
			"text": `1 null [] {}`, "base64": `1 null "?" "YQ" "-_-_"`, "unit": `"line"`,
		}},
		{"POST", "/v1/sessions/web/complete", map[string]string{
			"prompt": `1 null []`, "prompt_base64": `"?" 1 "YQ"`,
			"max_tokens":  `0 -1 65537 1.5 "1"`,
			"temperature": `-1 11 "1" 1e400`, "top_k": `-1 1048577 1.5`, "top_p": `0 -1 1.1 "1"`,
			"seed": notInteger, "stop": `1 ["` + strings.Repeat(`a","`, limits.StopStringsMax) +
				`a"] [1]`, "stream": `1 "true"`,
			"commit": `"some" 1 true`, "logprobs": `1 "yes"`, "n": `1`, "wait": `"1s"`,
		}},
	} {
		for name, values := range route.fields {
			for _, value := range strings.Fields(values) {
				all = append(all, field(route.method, route.path, name, value))
				if route.path == "/v1/sessions" {
					all = append(all, field("PUT", "/v1/sessions/other", name, value))
				}
			}
		}
	}
	return all
}

// badBodies returns requests whose bodies every JSON route must refuse.
func badBodies() (all []badInput) {
	for _, r := range jsonRoutes {
		with := func(media, accept, body string, kind api.ProblemType, field string) {
			all = append(all, badInput{r.method, r.path, media, accept, body, kind, field})
		}
		for _, body := range []string{
			`{"seed":`, `{"a":1}{}`, `{'a':1}`, "{\"text\":\"caf\xe9\"}", `{"text":"\ud83d"}`,
			`{"a":01}`,
			`nul`, `{"a" 1}`,
		} {
			with(contract.MediaJSON, "", body, api.ProblemMalformedBody, "")
		}
		with(
			contract.MediaJSON,
			"",
			`{"labels":{"a":"x","a":"y"}}`,
			api.ProblemInvalidField,
			"labels.a",
		)
		with(contract.MediaJSON, "", `{"x":1,"\u0078":1}`, api.ProblemInvalidField, "x")
		with(contract.MediaJSON, "image/png", `{}`, api.ProblemNotAcceptable, "Accept")
		with(
			"application/x-www-form-urlencoded",
			"",
			`{}`,
			api.ProblemUnsupportedMediaType,
			"Content-Type",
		)
		with("application/xml", "", `{}`, api.ProblemUnsupportedMediaType, "Content-Type")
		with(
			"application/json; charset=utf-16",
			"",
			`{}`,
			api.ProblemUnsupportedMediaType,
			"Content-Type",
		)
	}
	return all
}

func TestBadInputIsLocatedAndChangesNothing(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	g.send("PUT", "/v1/sessions/web", `{"seed":3,"labels":{"a":"b"}}`)
	g.score("/v1/sessions/web", someText)
	before, was := g.export("/v1/sessions/web"), g.get("/v1/sessions/web")
	refused := 0
	for _, inputs := range [][]badInput{badQueries(), badNames(), badFields(), badBodies()} {
		for _, b := range inputs {
			g.refuse(b)
			refused++
		}
		require.Equal(t, before, g.export("/v1/sessions/web"), "text, scores and state")
	}
	now := g.get("/v1/sessions/web")
	was.MemoryBytes, now.MemoryBytes = 0, 0
	require.Equal(t, was, now, "labels and times, too")
	list := decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK)
	require.Len(t, list.Sessions, 1, "nothing was made")
	require.Greater(t, refused, 500)
	t.Log(refused, "bad inputs")
}

func TestBadHeaderIsReportedWithItsValue(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	p := requireProblem(t, g.do("GET", path+"/events", nil, "Last-Event-ID", "abc"),
		api.ProblemInvalidParameter)
	require.Equal(t, []string{"Last-Event-ID", `"abc"`}, []string{*p.Field, *p.Found})
	p = decode[api.Problem](t, g.json("/v1/completions", `{"model":"small","prompt":"x"}`,
		"X-Session-Offset", "1.5"), http.StatusBadRequest)
	require.Equal(t, []string{"X-Session-Offset", `"1.5"`}, []string{*p.Field, *p.Found})
}

func (g *rig) refuse(b badInput) {
	g.t.Helper()
	// The server refuses forms from curl, even where it accepts forms from other clients.
	headers := []string{"User-Agent", "curl/8.5.0"}
	for name, value := range map[string]string{"Content-Type": b.media, "Accept": b.accept} {
		if value != "" {
			headers = append(headers, name, value)
		}
	}
	var body io.Reader
	if b.media != "" {
		body = strings.NewReader(b.body)
	}
	resp := g.do(b.method, b.path, body, headers...)
	isOpenAI := strings.Contains(b.path, "/v1/completions") || strings.HasSuffix(b.path, "tokenize")
	if isOpenAI && b.kind == api.ProblemInvalidField {
		require.Equal(g.t, http.StatusBadRequest, resp.StatusCode, b)
		// The checks below expect 422, but routes of OpenAI's interface answer 400.
		resp.StatusCode = http.StatusUnprocessableEntity
		p := decode[api.Problem](g.t, resp, http.StatusUnprocessableEntity)
		require.Equal(g.t, b.kind, p.Type, b)
		require.Equal(g.t, b.field, *p.Field, b)
		require.NotNil(g.t, p.Error, b)
		return
	}
	require.Equal(g.t, contract.MediaProblem, resp.Header.Get("Content-Type"), b)
	p := decode[api.Problem](g.t, resp, resp.StatusCode)
	require.Equal(g.t, b.kind, p.Type, "%s\n%v", b, p.Error)
	require.Equal(g.t, p.Status, resp.StatusCode, b)
	require.Equal(g.t, isOpenAI, p.Error != nil, b)
	if b.field == "" {
		require.NotEmpty(g.t, *p.Detail, b)
		return
	}
	require.NotNil(g.t, p.Field, b)
	require.Equal(g.t, b.field, *p.Field, b)
	require.NotEmpty(g.t, *p.Found, b)
	require.NotEmpty(g.t, *p.Expected, b)
}
