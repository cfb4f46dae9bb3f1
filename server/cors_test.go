package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
)

const page = "https://app.example.org"

func preflight(t *testing.T, g *rig, origin, method, headers string) *http.Response {
	return sendHost(
		t,
		&rig{t: t, url: g.url, client: g.plain},
		"OPTIONS",
		"/v1/sessions/web/score",
		"",
		"Origin",
		origin,
		"Access-Control-Request-Method",
		method,
		"Access-Control-Request-Headers",
		headers,
	)
}

func TestNamedOriginMayUseServer(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	for name, o := range map[string]Options{
		"without keys": {CORSOrigins: []string{"HTTPS://App.example.org:443"}},
		"with keys":    {CORSOrigins: []string{page}, Keys: ring.Ring},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, o)
			resp := preflight(t, g, page, "PATCH", "authorization,content-type,x-stainless-os")
			require.Equal(t, http.StatusNoContent, resp.StatusCode)
			require.Equal(t, page, resp.Header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "PATCH", resp.Header.Get("Access-Control-Allow-Methods"))
			require.Equal(t, "authorization,content-type,x-stainless-os",
				resp.Header.Get("Access-Control-Allow-Headers"))
			require.Empty(t, resp.Header.Get("Access-Control-Allow-Credentials"))

			sent := []string{
				"Origin",
				page,
				"Sec-Fetch-Site",
				"cross-site",
				"Authorization",
				"Bearer " + ring.token["alice"],
			}
			resp = sendHost(t, g, "GET", "/v1/sessions", "", sent...)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, page, resp.Header.Get("Access-Control-Allow-Origin"))
			require.Contains(t, resp.Header.Values("Vary"), "Origin")
			for _, name := range []string{"Location", "Retry-After", answer.HeaderRequestID} {
				require.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), name)
			}
			sent[len(sent)-1] = "Bearer me"
			resp = sendHost(t, g, "GET", "/v1/sessions/none", "", sent...)
			require.GreaterOrEqual(t, resp.StatusCode, http.StatusBadRequest)
			require.Equal(
				t,
				page,
				resp.Header.Get("Access-Control-Allow-Origin"),
				"a page can read problems",
			)
		})
	}
}

func TestUnnamedOriginMayNotUseServer(t *testing.T) {
	named := Options{CORSOrigins: []string{page}}
	others := []string{"https://evil.example", page + ".evil.example", "http://app.example.org",
		page + ":8443", "https://sub.app.example.org", "null", "*"}
	for _, origin := range others {
		g := newRig(t, named)
		resp := preflight(t, g, origin, "GET", "")
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), origin)
		requireProblem(
			t,
			sendHost(t, g, "GET", "/v1/sessions", "", "Origin", origin),
			api.ProblemOriginNotAllowed,
		)
	}
	g := newRig(t, Options{}) // Without CORSOrigins, CORS is off.
	resp := preflight(t, g, page, "GET", "")
	require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, http.StatusForbidden, resp.StatusCode)

	g = newRig(t, named)
	resp = sendHost(t, g, "GET", "/v1/sessions", "evil.example", "Origin", page)
	requireProblem(t, resp, api.ProblemHostNotAllowed)

	for _, bad := range []string{
		"*", "", "null", "https://*.example.org", "app.example.org", "ftp://a.example", page + "/",
		page + "/path", page + "?q", "https://u:p@app.example.org", "https://", "https://:443",
	} {
		_, err := New(newFake(), Options{CORSOrigins: []string{bad}})
		require.ErrorContains(t, err, "expected one origin", bad)
	}
}

// userPage uses the server like a web application: with a key, JSON, and a streamed answer.
const userPage = `<!doctype html><title>page</title><script>
(async () => {
  const at = %q, found = {}, key = {Authorization: "Bearer " + %q};
  try {
    const made = await fetch(at + "/v1/sessions/web", {method: "PUT", body: '{"seed": 3}',
      headers: {...key, "Content-Type": "application/json"}});
    found.made = made.status;
    found.location = made.headers.get("Location");
    found.id = made.headers.get("X-Request-Id");
    const score = await fetch(at + "/v1/sessions/web/score", {method: "POST",
      body: "a text\n".repeat(50),
      headers: {...key, "Content-Type": "text/plain", Accept: "text/event-stream"}});
    const reader = score.body.pipeThrough(new TextDecoderStream()).getReader();
    found.events = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read())
      found.events += part.value.split("event: ").length - 1;
    found.gone = (await fetch(at + "/v1/sessions/none", {headers: key})).status;
  } catch (e) { found.error = String(e) }
  await fetch("/done", {method: "POST", body: JSON.stringify(found)});
})()
</script>`

// A page of an allowed origin can use the server. A page of another origin can do nothing, even
// with the same key.
func TestChromiumPageOfNamedOriginUsesServer(t *testing.T) {
	browser := findChromium(t)
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	for name, named := range map[string]bool{"named": true, "not named": false} {
		t.Run(name, func(t *testing.T) {
			browser.t = t
			var g *rig
			raw := browser.visit(func(origin string) string {
				o := Options{Keys: ring.Ring, CORSOrigins: []string{page}}
				if named {
					o.CORSOrigins = append(o.CORSOrigins, origin)
				}
				g = newFolderRig(t, t.TempDir(), 1, o, session.Options{})
				return fmt.Sprintf(userPage, g.url, ring.token["alice"])
			})
			var found struct {
				Made, Events, Gone  int
				Location, ID, Error string
			}
			require.NoError(t, json.Unmarshal([]byte(raw), &found))
			g.key = ring.token["alice"]
			if !named {
				require.Contains(t, found.Error, "Failed to fetch")
				require.Empty(
					t,
					decode[api.SessionList](
						t,
						g.do("GET", "/v1/sessions", nil),
						http.StatusOK,
					).Sessions,
				)
				return
			}
			require.Empty(t, found.Error)
			require.Equal(
				t,
				[]int{http.StatusCreated, http.StatusNotFound},
				[]int{found.Made, found.Gone},
			)
			require.NotEmpty(t, found.ID)
			require.True(t, strings.HasPrefix(found.Location, "/v1/sessions/"))
			require.Greater(t, found.Events, 2)
			require.EqualValues(t, 350, g.get("/v1/sessions/web").Offset)
		})
	}
}
