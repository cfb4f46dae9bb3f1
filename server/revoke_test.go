package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func TestRevokingAKeyEndsWhatIsUnderWay(t *testing.T) {
	// The documented limit is two seconds and the time of one chunk. A loaded machine with the race
	// detector needs longer. Without the revocation, each request below would take minutes.
	const soon = 30 * time.Second
	long := strings.Repeat("This text takes longer than the test. ", 200_000)
	silent := func(g *rig) io.Reader {
		r, w := io.Pipe()
		g.t.Cleanup(func() { _ = w.Close() })
		return io.MultiReader(strings.NewReader("begun"), r)
	}
	for name, send := range map[string]func(g *rig, path string) *http.Response{
		"score of JSON": func(g *rig, path string) *http.Response {
			return g.json(path+"/score", fmt.Sprintf(`{"text":%q}`, long))
		},
		"score of JSON, streamed": func(g *rig, path string) *http.Response {
			return g.json(path+"/score", fmt.Sprintf(`{"text":%q}`, long), "Accept",
				contract.MediaNDJSON)
		},
		"score of plain text": func(g *rig, path string) *http.Response {
			return g.text(path+
				"/score", long)
		},
		"score of plain text, streamed": func(g *rig, path string) *http.Response {
			return g.text(path+"/score", long, "Accept", contract.MediaNDJSON)
		},
		"body that is silent": func(g *rig, path string) *http.Response {
			return g.do("POST", path+"/score", silent(g), "Content-Type", "text/plain")
		},
		"JSON body that is silent": func(g *rig, path string) *http.Response {
			return g.do("POST", path+"/score", silent(g), "Content-Type", "application/json")
		},
		"import that is silent": func(g *rig, path string) *http.Response {
			return g.do("POST", "/v1/sessions/import", silent(g), "Content-Type", contract.MediaTar)
		},
		"completion": func(g *rig, path string) *http.Response {
			return g.json(path+"/complete", `{"max_tokens":65536}`)
		},
		"completion, streamed": func(g *rig, path string) *http.Response {
			return g.json(path+"/complete", `{"max_tokens":65536,"stream":true}`)
		},
		"watching": func(g *rig, path string) *http.Response {
			return g.do("GET", path+"/events", nil)
		},
		"texts in OpenAI's form": func(g *rig, path string) *http.Response {
			return g.json("/v1/completions", `{"model":"small","prompt":"x","max_tokens":65536}`)
		},
		"texts in OpenAI's form, streamed, of a session": func(g *rig, path string) *http.Response {
			return g.json("/v1/completions",
				`{"model":"small","prompt":"x","max_tokens":65536,"stream":true}`, "X-Session-ID",
				path[len("/v1/sessions/"):])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring := newTestKeys(t,
				keys.Key{Name: "k", Limits: keys.Limits{BytesPerSecond: keys.BytesPerSecondMax}},
				keys.Key{Name: "admin", Admin: true})
			g := newRealRig(t, session.Options{Threads: 1}, Options{Keys: ring.Ring})
			g.key = ring.token["k"]
			path := g.create("{}")
			var revoked time.Time
			time.AfterFunc(500*time.Millisecond, func() {
				revoked = time.Now()
				ring.revoke(t,
					"k")
			})
			resp := send(g.rig, path)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Less(t, time.Since(revoked), soon)
			require.Regexp(t, string(api.ProblemUnauthorized)+`|"code":"invalid_api_key"`,
				string(body))
			if resp.Header.Get("Content-Type") == contract.MediaProblem {
				require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
			}
			g.key = ring.token["admin"]
			at := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset
			time.Sleep(300 * time.Millisecond)
			require.Equal(t, at, decode[api.Session](t, g.do("GET", path, nil),
				http.StatusOK).Offset, "nothing goes on in secret")
		})
	}
}

func TestRevokingAKeyEndsItsExports(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	ring := newTestKeys(t, keys.Key{Name: "k"})
	g := newRig(t, Options{Keys: ring.Ring})
	g.key = ring.token["k"]
	path := g.create("{}")
	g.fake.exporting = 100 << 20
	r, err := http.NewRequestWithContext(t.Context(), "GET", g.url+path+"/snapshot", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.key)
	resp, err := g.plain.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.CopyN(io.Discard, resp.Body, 1<<20)
	require.NoError(t, err)
	ring.revoke(t, "k")
	time.Sleep(3 * time.Second)
	rest, err := io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a part of a file does not look like the whole")
	require.Less(t, rest, int64(50<<20))
}
