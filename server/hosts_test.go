package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
)

// sendHost sends a request with headers, given as pairs of name and value. A non-empty host
// replaces the header Host.
func sendHost(t *testing.T, g *rig, method, path, host string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.url+path, nil)
	require.NoError(t, err)
	if host != "" {
		r.Host = host
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestServerWithoutKeysAnswersOnlyToItsOwnNames(t *testing.T) {
	g := newRig(t, Options{AllowedHosts: []string{"lm.example.org"}})
	_, port, err := net.SplitHostPort(g.addr)
	require.NoError(t, err)
	for _, s := range samples(t) {
		for _, host := range []string{"evil.example", "evil.example:" + port,
			"127.0.0.1.evil.example", "localhost.evil.example:" + port,
			"192.0.2.1", "[2001:db8::1]:" + port, "0.0.0.0:" + port, "lm.example.org.evil.example",
			"x.localhost"} {
			resp := sendHost(t, g, s.method, strings.ReplaceAll(s.path, "{id}", "s-0001"), host)
			require.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode, "%s from %s", s, host)
			if s.method != http.MethodHead {
				require.Equal(t, "Host", *requireProblem(t, resp, api.ProblemHostNotAllowed).Field)
			}
		}
	}
	for _, path := range []string{"/", "/nowhere", "/v1/sessions/"} {
		requireProblem(t, sendHost(t, g, "POST", path, "evil.example"), api.ProblemHostNotAllowed)
	}
	for _, host := range []string{"localhost", "LocalHost:1", "localhost.", "127.0.0.1",
		"127.9.9.9:80", "[::1]:9", "[::ffff:127.0.0.1]", "lm.example.org", "lm.example.org:8443",
		g.addr} {
		require.Equal(t, http.StatusOK, sendHost(t, g, "GET", "/v1/sessions", host).StatusCode,
			host)
	}

	conn, err := net.Dial("tcp", g.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	fmt.Fprint(conn, "GET /healthz HTTP/1.0\r\n\r\n")
	answer := make([]byte, len("HTTP/1.0 200"))
	_, err = conn.Read(answer)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.0 200", string(answer), "a client of HTTP/1.0 sends no Host")
}

// An allowed name without a dot is the name of a Kubernetes service. The server also accepts the
// names that Kubernetes derives from this name. It refuses a derived name that somebody else could
// register as a domain, such as lmserve.dev.
func TestServicesHaveTheirNamesInKubernetes(t *testing.T) {
	g := newRig(t, Options{AllowedHosts: []string{"lmserve", "lm.example.org"}})
	for _, host := range []string{
		"lmserve", "lmserve:8080", "lmserve.default", "lmserve.team-a:8080", "LMserve.Default.svc",
		"lmserve.dev.svc", "lmserve.local.svc", "lmserve.default.svc.cluster.local",
		"lmserve.default.svc.cluster.local.:80",
	} {
		require.Equal(t, http.StatusOK, sendHost(t, g, "GET", "/healthz", host).StatusCode, host)
	}
	for _, host := range []string{
		"lmserve.local", "lmserve.local.:80",
		"lmserve.dev", "lmserve.com", "lmserve.app.", "lmserve.co.uk", "lmserve.evil.example",
		"lmserve.svc.evil.example", "lmserve.default.svc.evil.example", "lmserve..svc",
		".default.svc",
		"lmserve.default.svc.cluster.local.evil.example", "x.lmserve.default.svc",
		"other.default.svc",
		"lmserve.a.b.svc", "lm.example.org.default.svc", "lmserve.default.cluster.local",
	} {
		resp := sendHost(t, g, "GET", "/healthz", host)
		require.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode, host)
	}
	// A page of a service with the same name in another namespace has another origin.
	resp := sendHost(t, g, "GET", "/healthz", "lmserve", "Origin", "http://lmserve.other.svc")
	requireProblem(t, resp, api.ProblemOriginNotAllowed)
}

func TestPagesOfOtherOriginsAreRefusedWithoutKeys(t *testing.T) {
	g := newRig(t, Options{AllowedHosts: []string{"lm.example.org"}})
	for _, s := range samples(t) {
		path := strings.ReplaceAll(s.path, "{id}", "s-0001")
		for _, headers := range [][]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"},
			{"Origin", "http://localhost:1"}, {"Origin", "http://127.0.0.1:1"}, {"Origin", "%"},
			{"Origin", g.url + ".evil.example"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"},
			{"Origin", g.url, "Sec-Fetch-Site", "cross-site"},
		} {
			resp := sendHost(t, g, s.method, path, "", headers...)
			require.Equal(t, http.StatusForbidden, resp.StatusCode, "%s with %q", s, headers)
			if s.method != http.MethodHead {
				requireProblem(t, resp, api.ProblemOriginNotAllowed)
			}
		}
	}
	requireProblem(t, sendHost(t, g, "OPTIONS", "/v1/sessions", "", "Origin",
		"https://evil.example"), api.ProblemOriginNotAllowed)
	for _, headers := range [][]string{
		{}, {"Origin", g.url}, {"Origin", g.url, "Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none"},
		{"Origin", "https://lm.example.org", "Sec-Fetch-Site", "cross-site"},
	} {
		require.Equal(t, http.StatusOK, sendHost(t, g, "GET", "/v1/sessions", "",
			headers...).StatusCode, headers)
	}
}

// Foreign pages have no key, so a server with keys checks hosts and origins only if host names are
// configured.
func TestKeysTakeThePlaceOfHosts(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	bearer := []string{"Authorization", "Bearer " + ring.token["alice"], "Origin",
		"https://evil.example"}
	g := newRig(t, Options{Keys: ring.Ring})
	require.Equal(t, http.StatusOK, sendHost(t, g, "GET", "/v1/sessions", "evil.example",
		bearer...).StatusCode)
	g = newRig(t, Options{Keys: ring.Ring, AllowedHosts: []string{"lm.example.org"}})
	requireProblem(t, sendHost(t, g, "GET", "/v1/sessions", "evil.example", bearer...),
		api.ProblemHostNotAllowed)
	requireProblem(t, sendHost(t, g, "GET", "/v1/sessions", "lm.example.org", bearer...),
		api.ProblemOriginNotAllowed)
	require.Equal(t, http.StatusOK, sendHost(t, g, "GET", "/v1/sessions", "lm.example.org",
		bearer[:2]...).StatusCode)
}

// foreignPage is a page that sends requests to the server as a foreign page could: it tries to
// write, to delete and to read. At the end, foreignPage requests /done.
const foreignPage = `<!doctype html><title>page</title><script>
(async () => {
  const at = %q, tries = [
    [at + "/v1/sessions", {method: "POST", mode: "no-cors"}],
    [at + "/v1/sessions/s-0001/score", {method: "POST", mode: "no-cors", body: "text"}],
    [at + "/v1/sessions/s-0001/fork", {method: "POST", mode: "no-cors"}],
    [at + "/v1/sessions/import", {method: "POST", mode: "no-cors", body: new Blob(["x"])}],
    [at + "/v1/sessions/s-0001", {method: "DELETE"}],
    [at + "/v1/sessions", {}],
    [at + "/v1/sessions/s-0001/snapshot", {mode: "no-cors"}],
  ];
  for (const [url, options] of tries) try { await fetch(url, options) } catch {}
  await fetch("/done", {method: "POST"});
})()
</script>`

// TestChromiumPageOfAnotherOriginDoesNothing opens two pages in Chromium. The origin of the first
// page has another port of this machine. The second page has a foreign host name that resolves to
// the server, as in DNS rebinding.
func TestChromiumPageOfAnotherOriginDoesNothing(t *testing.T) {
	chromium := findChromium(t)
	for name, at := range map[string]string{"another port": "http://%s",
		"rebinding": "http://evil.example:%[2]s"} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{})
			g.create("{}")
			_, port, err := net.SplitHostPort(g.addr)
			require.NoError(t, err)
			chromium.visit(func(string) string {
				return fmt.Sprintf(foreignPage, fmt.Sprintf(at, g.addr, port))
			})
			list := decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
				http.StatusOK).Sessions
			require.Len(t, list, 1, "no session was made, and none deleted")
			require.Zero(t, list[0].Offset, "and none was fed")
		})
	}
}
