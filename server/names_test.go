package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
)

func TestSessionIsMadeOrFoundByItsName(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	const web, body = "/v1/sessions/web.log", `{"settings":{"chunk":8},"seed":5,"labels":{"a":"b"}}`
	resp := g.send("PUT", web, body)
	made := decode[api.Session](t, resp, http.StatusCreated)
	require.Equal(t, "web.log", *made.Name)
	require.Equal(t, "/v1/sessions/"+made.ID, resp.Header.Get("Location"))
	for _, again := range []*http.Response{
		g.send("PUT", web, body), g.do("PUT", web, nil),
		g.send("PUT", web, `{"labels":{"c":"d"},"ttl_seconds":9}`),
	} {
		found := decode[api.Session](t, again, http.StatusOK)
		require.Equal(t, made.ID, found.ID)
		require.Equal(t, made.Labels, found.Labels, "finding changes nothing")
	}
	resp = g.send("PUT", web, `{"settings":{"chunk":9,"p":0.5},"seed":6}`)
	p := requireProblem(t, resp, api.ProblemSessionDiffers)
	require.Equal(t, []api.Difference{
		{Field: "settings.chunk", Found: "8", Expected: "9"}, {Field: "seed", Found: "5",
			Expected: "6"},
	}, p.Differences)
	require.Equal(t, []string{"settings.chunk", "8", "9"}, []string{*p.Field, *p.Found,
		*p.Expected})

	require.EqualValues(t, 4, g.score(web, "text").Offset)
	require.Equal(t, made.ID, g.get(web).ID)
	require.Equal(t, http.StatusOK, g.json(web+"/complete", `{"max_tokens":1}`).StatusCode)
	require.NotEmpty(t, g.export(web))
	require.Equal(t, http.StatusNoContent, g.do("DELETE", web, nil).StatusCode)
	requireProblem(t, g.do("GET", web, nil), api.ProblemSessionNotFound)
	require.NotEqual(t, made.ID, decode[api.Session](t, g.do("PUT", web, nil),
		http.StatusCreated).ID)
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create("{}")
	file := g.export(path)
	id := strings.TrimPrefix(path, "/v1/sessions/")
	for _, name := range []string{id, "import", "A", "-a", "a%2Fb", "a%00", "%C3%A9",
		strings.Repeat("x", 65), "%20"} {
		p := requireProblem(t, g.do("PUT", "/v1/sessions/"+name, nil), api.ProblemInvalidParameter)
		require.Equal(t, "id", *p.Field, name)
		p = requireProblem(t, g.do("POST", "/v1/sessions/import?name="+name, bytes.NewReader(file)),
			api.ProblemInvalidParameter)
		require.Equal(t, "name", *p.Field, name)
		plain := strings.NewReplacer("%2F", "/", "%00", `\u0000`, "%C3%A9", "é", "%20",
			" ").Replace(name)
		p = requireProblem(t, g.json(path+"/fork", `{"name":"`+plain+`"}`), api.ProblemInvalidField)
		require.Equal(t, "name", *p.Field, name)
	}
	list := decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK)
	require.Len(t, list.Sessions, 1, "nothing was made")
}

func TestForksAndImportsMayHaveNames(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	g.do("PUT", "/v1/sessions/web", nil)
	g.score("/v1/sessions/web", "some text")
	file := g.export("/v1/sessions/web")
	load := func(query string) *http.Response {
		return g.do("POST", "/v1/sessions/import"+query, bytes.NewReader(file))
	}
	fork := func(body string) *http.Response { return g.json("/v1/sessions/web/fork", body) }
	require.Nil(t, decode[api.Session](t, load(""), http.StatusCreated).Name)
	require.Nil(t, decode[api.Session](t, fork("{}"), http.StatusCreated).Name)
	require.Equal(t, "copy", *decode[api.Session](t, load("?name=copy"), http.StatusCreated).Name)
	require.Equal(t, "branch", *decode[api.Session](t, fork(`{"name":"branch"}`),
		http.StatusCreated).Name)
	requireProblem(t, load("?name=branch"), api.ProblemNameTaken)
	requireProblem(t, fork(`{"name":"copy"}`), api.ProblemNameTaken)
	require.EqualValues(t, 9, g.get("/v1/sessions/copy").Offset)
	require.EqualValues(t, 9, g.get("/v1/sessions/branch").Offset)
}

func TestNameBelongsToItsKey(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "one"}, keys.Key{Name: "two"}, keys.Key{Name: "admin",
		Admin: true})
	g := newFolderRig(t, t.TempDir(), 1, Options{Keys: ring.Ring}, session.Options{})
	g.key = ring.token["one"]
	one := decode[api.Session](t, g.do("PUT", "/v1/sessions/web", nil), http.StatusCreated)
	for _, other := range []string{"two", "admin"} {
		g.key = ring.token[other]
		for _, resp := range []*http.Response{
			g.do("GET", "/v1/sessions/web", nil), g.text("/v1/sessions/web/score", "x"),
			g.do("DELETE", "/v1/sessions/web", nil),
			g.send("PATCH", "/v1/sessions/web", "{}"), g.json("/v1/sessions/web/fork", "{}"),
		} {
			requireProblem(t, resp, api.ProblemSessionNotFound)
		}
		own := decode[api.Session](t, g.do("PUT", "/v1/sessions/web", nil), http.StatusCreated)
		require.NotEqual(t, one.ID, own.ID)
	}
}

func TestPatchIsMergePatch(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"labels":{"a":"1","b":"2"},"ttl_seconds":60}`)
	for _, c := range []struct {
		body   string
		labels api.Labels
		ttl    int64
	}{
		{`{}`, api.Labels{"a": "1", "b": "2"}, 60},
		{`{"labels":{}}`, api.Labels{"a": "1", "b": "2"}, 60},
		{`{"labels":{"a":null,"c":"3","x":null}}`, api.Labels{"b": "2", "c": "3"}, 60},
		{`{"ttl_seconds":90}`, api.Labels{"b": "2", "c": "3"}, 90},
		{`{"ttl_seconds":null,"labels":{"b":""}}`, api.Labels{"b": "", "c": "3"}, 0},
		{`{"ttl_seconds":0}`, api.Labels{"b": "", "c": "3"}, 0},
		{`{"labels": null, "ttl_seconds": 31536000}`, nil, 31536000},
	} {
		info := decode[api.Session](t, g.send("PATCH", path, c.body), http.StatusOK)
		var labels api.Labels
		if info.Labels != nil {
			labels = *info.Labels
		}
		require.Equal(t, c.labels, labels, c.body)
		require.Equal(t, c.ttl, info.TTLSeconds, c.body)
		require.Equal(t, info.Labels, g.get(path).Labels)
	}
	for body, field := range map[string]string{
		`{"labels":7}`:        "labels",
		`{"labels":{"a":7}}`:  "labels.a",
		`{"labels":{"":"x"}}`: "labels",
		`{"labels":{"a":"` + strings.Repeat("x", 257) + `"}}`: "labels.a",
		`{"labels":{"` + strings.Repeat("x", 65) + `":"a"}}`:  "labels",
		`{"labels":` + manyLabels(t, 17) + `}`:                "labels",
		`{"labels":` + manyLabels(t, 65) + `}`:                "labels",
		`{"ttl_seconds":-1}`:                                  "ttl_seconds",
		`{"ttl_seconds":31536001}`:                            "ttl_seconds",
		`{"ttl_seconds":"60"}`:                                "ttl_seconds",
		`{"ttl_seconds":1e2}`:                                 "ttl_seconds",
		`{"name":"Web"}`:                                      "name",
		`{"name":"import"}`:                                   "name",
		`{"name":7}`:                                          "name",
		`{"name":"` + strings.Repeat("x", 65) + `"}`:          "name",
		`{"settings":{}}`:                                     "settings",
	} {
		p := requireProblem(t, g.send("PATCH", path, body), api.ProblemInvalidField)
		require.True(t, strings.HasPrefix(*p.Field, field), "%s: %s", body, *p.Field)
	}
	requireProblem(t, g.do("PATCH", path, nil), api.ProblemMalformedBody)
	requireProblem(t, g.send("PATCH", "/v1/sessions/none", "{}"), api.ProblemSessionNotFound)
	require.Nil(t, g.get(path).Labels, "nothing was changed")
	require.EqualValues(t, 31536000, g.get(path).TTLSeconds)
}

func TestSessionIsRenamed(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{}`)
	g.do("PUT", "/v1/sessions/taken", nil)
	for _, c := range []struct{ at, body, name string }{
		{path, `{"name":"web"}`, "web"},
		{"/v1/sessions/web", `{"name":"web"}`, "web"},
		{"/v1/sessions/web", `{"name":"log","labels":{"a":"1"}}`, "log"},
		{"/v1/sessions/log", `{"labels":{"a":null}}`, "log"},
		{"/v1/sessions/log", `{"name":null}`, ""},
		{path, `{"name":"web"}`, "web"},
		{path, `{"name":""}`, ""},
	} {
		info := decode[api.Session](t, g.send("PATCH", c.at, c.body), http.StatusOK)
		require.Equal(t, c.name != "", info.Name != nil, c.body)
		if c.name != "" {
			require.Equal(t, c.name, *info.Name)
			require.Equal(t, info.ID, g.get("/v1/sessions/"+c.name).ID)
		}
	}
	for _, gone := range []string{"web", "log"} {
		requireProblem(t, g.do("GET", "/v1/sessions/"+gone, nil), api.ProblemSessionNotFound)
	}
	p := requireProblem(t, g.send("PATCH", path, `{"name":"taken","ttl_seconds":5}`),
		api.ProblemNameTaken)
	require.Equal(t, "name", *p.Field)
	require.Zero(t, g.get(path).TTLSeconds, "nothing was changed")
}

func manyLabels(t *testing.T, n int) string {
	labels := map[string]string{}
	for i := range n {
		labels[strings.Repeat("l", i+1)[:min(i+1, 32)]+string(rune('0'+i%64))] = ""
	}
	text, err := json.Marshal(labels)
	require.NoError(t, err)
	return string(text)
}

func TestSessionsAreListedByLabel(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	for _, labels := range []string{`{"host":"a"}`, `{"host":"b:c"}`, `{}`, `{"host":"a","x":""}`} {
		g.create(`{"labels":` + labels + `}`)
	}
	for query, n := range map[string]int{
		"": 4, "?label=host": 3, "?label=host:a": 2, "?label=host:b:c": 1, "?label=host:": 0,
		"?label=x:": 1, "?label=y": 0,
		"?label=host%3Aa&limit=1": 1,
	} {
		list := decode[api.SessionList](t, g.do("GET", "/v1/sessions"+query, nil), http.StatusOK)
		require.Len(t, list.Sessions, n, query)
		require.Equal(t, strings.HasSuffix(query, "limit=1"), list.Next != nil, query)
	}
	requireProblem(t, g.do("GET", "/v1/sessions?label=", nil), api.ProblemInvalidParameter)
	requireProblem(t, g.do("GET", "/v1/sessions?label=a&label=b", nil), api.ProblemInvalidParameter)
}

func TestRequestWaitsForBusySession(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create("{}")
	body, client := io.Pipe()
	done := make(chan int, 2)
	go func() {
		done <- g.do("POST", path+"/score", body, "Content-Type",
			"text/plain").StatusCode
	}()
	_, err := io.WriteString(client, "0123")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return g.get(path).Offset == 4 }, 10*time.Second,
		time.Millisecond)
	for _, wait := range []string{"?offset=4", "?wait=0s", "?wait=20ms"} {
		resp := g.text(path+"/score"+wait, "x")
		requireProblem(t, resp, api.ProblemSessionBusy)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
	}
	for _, wait := range []string{"", "?wait=0s", "?wait=20ms"} {
		requireProblem(t, g.json(path+"/complete"+wait, `{"max_tokens":1,"commit":"all"}`),
			api.ProblemSessionBusy)
	}
	require.Equal(t, http.StatusOK, g.json(path+"/complete", `{"max_tokens":1}`).StatusCode,
		"it feeds nothing")
	require.Equal(t, http.StatusCreated, g.json(path+"/fork", "{}").StatusCode, "it feeds nothing")
	require.Equal(t, http.StatusOK, g.send("PATCH", path, "{}").StatusCode, "it feeds nothing")
	go func() { done <- g.text(path+"/score?wait=10s", "4567").StatusCode }()
	// The request probably waits by now. The test also passes if it does not.
	time.Sleep(20 * time.Millisecond)
	client.Close()
	require.Equal(t, []int{http.StatusOK, http.StatusOK}, []int{<-done, <-done})
	require.EqualValues(t, 8, g.get(path).Offset)
	for _, wait := range []string{"10", "-1s", "1h", "s", "601s", "11m", "1.5s", "10s%20"} {
		p := requireProblem(t, g.text(path+"/score?wait="+wait, "x"), api.ProblemInvalidParameter)
		require.Equal(t, "wait", *p.Field, wait)
		require.NotEmpty(t, *p.Expected)
		requireProblem(t, g.json(path+"/complete?wait="+wait, "{}"), api.ProblemInvalidParameter)
	}
	require.EqualValues(t, 8, g.get(path).Offset)
}

func TestOpenAICompletionNamesSession(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	made := decode[api.Session](t, g.do("PUT", "/v1/sessions/web", nil), http.StatusCreated)
	const body = `{"model":"small","prompt":"x","max_tokens":1`
	for _, resp := range []*http.Response{
		g.json("/v1/completions", body+`}`, "X-Session-ID", "web"), g.json("/v1/completions", body+
			`,"user":"web"}`),
		g.json("/v1/completions", body+`,"stream":true}`, "X-Session-ID", "web"),
	} {
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, made.ID, resp.Header.Get("X-Session-ID"))
	}
	p := requireProblem(t, g.json("/v1/completions", body+`}`, "X-Session-ID", "wob"),
		api.ProblemSessionNotFound)
	require.Equal(t, "X-Session-ID", *p.Field)
}
