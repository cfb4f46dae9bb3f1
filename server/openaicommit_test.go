package server

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
)

func (g *rig) textOf(path string) string {
	g.t.Helper()
	resp := g.do("GET", path+"/text", nil)
	require.Equal(g.t, http.StatusOK, resp.StatusCode)
	text := new(strings.Builder)
	_, err := bufio.NewReader(resp.Body).WriteTo(text)
	require.NoError(g.t, err)
	return text.String()
}

func (g *rig) offsetOf(path string) int64 {
	g.t.Helper()
	return decode[api.Session](g.t, g.do("GET", path, nil), http.StatusOK).Offset
}

// costOf returns the bits of a prompt after the session's text, without learning.
func (g *rig) costOf(path, prompt string) float64 {
	g.t.Helper()
	resp := g.text(path+"/score?learn=false", prompt)
	return decode[api.SummaryEvent](g.t, resp, http.StatusOK).Bits
}

// A request can commit its prompt, or prompt and completion, to a session: by a header or a JSON
// field. The session's text and scores then equal those of a session fed with the same text.
func TestOpenAIClientsTeachSessions(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	prompt := numbered(2, 3*modeltest.Chunk+5)
	for _, c := range []struct {
		commit, fields string
		headers        []string
		stream         bool
	}{
		{"prompt", `"commit":"prompt"`, nil, false},
		{"all", `"commit":"all","echo":true`, nil, false},
		{"all", `"commit":"all","logprobs":2`, nil, true},
		{"prompt", `"n":2,"commit":null`, []string{"X-Commit", "prompt"}, false},
		{"prompt", `"n":2,"max_tokens":0`, []string{"X-Commit", "prompt"}, true},
		{"all", `"commit":"all"`, []string{"X-Commit", "all"}, false},
		{"none", `"commit":"none"`, nil, false},
	} {
		path, twin := g.create(`{"seed":3}`), g.create(`{"seed":3}`)
		id := strings.TrimPrefix(path, "/v1/sessions/")
		fields := fmt.Sprintf(`"max_tokens":9,"seed":4,"stream":%t,%s`, c.stream, c.fields)
		if strings.Contains(c.fields, "max_tokens") {
			fields = strings.Replace(fields, `"max_tokens":9,`, "", 1)
		}
		body := asJSON(t, map[string]any{"model": "small", "prompt": prompt, "user": id})
		body = body[:len(body)-1] + "," + fields + "}"
		headers := append([]string{"X-Request-Id", "r"}, c.headers...)
		var events []api.OpenAICompletion
		if c.stream {
			events = streamed(t, g.json("/v1/completions", body, headers...))
		} else {
			events = []api.OpenAICompletion{g.completed(body, headers...)}
		}
		text, last := "", events[len(events)-1]
		for _, e := range events[:len(events)-1] {
			require.Nil(t, e.Offset, "it has not committed")
		}
		for _, e := range events {
			text += e.Choices[0].Text
		}
		want := ""
		switch {
		case c.commit == "none":
		case c.commit == "all" && strings.Contains(c.fields, "echo"):
			want = text
		case c.commit == "all":
			want = prompt + text
		default:
			want = prompt
		}
		has := g.textOf(path)
		require.Equal(t, want, codec.EncodeText([]byte(has)))
		if c.commit == "none" {
			require.Nil(t, last.Offset)
		} else {
			g.text(twin+"/score", has)
			require.EqualValues(t, len(has), *last.Offset)
			require.NotNil(t, last.Choices[len(last.Choices)-1].FinishReason)
		}
		require.Equal(t, g.costOf(twin, prompt), g.costOf(path, prompt), c.fields)
	}
}

func TestUserThatCommitsIsLearned(t *testing.T) {
	g := newOpenAIRig(t, Options{UserSessions: true})
	prompt, path, costs := numbered(1, 4*modeltest.Chunk), "", []float64{}
	for range 4 {
		resp := g.json("/v1/completions", asJSON(t, map[string]any{
			"prompt": prompt, "user": "bob", "commit": "prompt", "max_tokens": 0,
		}))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		path = "/v1/sessions/" + resp.Header.Get("X-Session-ID")
		costs = append(costs, g.costOf(path, prompt))
	}
	require.EqualValues(t, 4*len(prompt), g.offsetOf(path))
	require.Less(t, costs[len(costs)-1], costs[0])
}

func TestCommitThatIsRepeatedCountsOnce(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create("{}")
	id := strings.TrimPrefix(path, "/v1/sessions/")
	const body = `{"prompt":"once","max_tokens":4,"commit":"all"`
	done := g.completed(body+`,"offset":0}`, "X-Session-ID", id)
	for _, again := range []*http.Response{
		g.json("/v1/completions", body+`,"offset":0}`, "X-Session-ID", id),
		g.json("/v1/completions", body+`}`, "X-Session-ID", id, "X-Session-Offset", "0"),
		g.json("/v1/completions", body+`,"offset":0,"stream":true}`, "X-Session-ID", id),
	} {
		p := requireProblem(t, again, api.ProblemOffsetConflict)
		require.Equal(t, *done.Offset, *p.Error.Offset)
		require.Equal(t, "offset_conflict", p.Error.Code)
	}
	require.Equal(t, *done.Offset, g.offsetOf(path))
	next := g.completed(fmt.Sprintf(`%s,"offset":%d}`, body, *done.Offset), "X-Session-ID", id)
	require.Greater(t, *next.Offset, *done.Offset)
	for _, c := range [][]string{{"X-Commit", "prompt"}, {"X-Session-Offset", "5"}} {
		p := decode[api.Problem](t, g.json("/v1/completions", body+`,"offset":0}`,
			append([]string{"X-Session-ID", id}, c...)...), http.StatusBadRequest)
		require.Contains(t, *p.Expected, "the same value as in the header")
	}
}

func TestClientThatLeavesCommitsNothing(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create("{}")
	g.text(path+"/score", numbered(1, 100))
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/completions", strings.NewReader(
		`{"prompt":"x","max_tokens":60000,"commit":"all","stream":true}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", contract.MediaJSON)
	r.Header.Set("X-Session-ID", strings.TrimPrefix(path, "/v1/sessions/"))
	resp, err := g.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.True(t, bufio.NewScanner(resp.Body).Scan())
	busy := g.text(path+"/score?wait=0s", "y")
	requireProblem(t, busy, api.ProblemSessionBusy)
	leave()
	require.Eventually(t, func() bool {
		return g.text(path+"/score?wait=0s", "y").StatusCode == http.StatusOK
	}, time.Minute, 5*time.Millisecond)
	require.EqualValues(t, 101, g.offsetOf(path))
}

func TestCommitsToOneSessionQueue(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create("{}")
	id := strings.TrimPrefix(path, "/v1/sessions/")
	var all sync.WaitGroup
	const clients = 12
	status := make([]int, clients)
	for i := range clients {
		all.Go(func() {
			const body = `{"prompt":"turn","max_tokens":0,"commit":"prompt"}`
			status[i] = g.json("/v1/completions", body, "X-Session-ID", id).StatusCode
		})
	}
	all.Wait()
	for _, s := range status {
		require.Equal(t, http.StatusOK, s)
	}
	require.Equal(t, strings.Repeat("turn", clients), g.textOf(path))
}

func TestCommitNeedsSession(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	for _, fields := range []string{``, `,"user":"nobody"`, `,"stream":true`} {
		p := decode[api.Problem](t, g.json("/v1/completions",
			`{"prompt":"x","commit":"prompt"`+fields+`}`), http.StatusBadRequest)
		require.Equal(t, "commit", *p.Error.Param)
	}
	p := requireProblem(t, g.json("/v1/completions", `{"prompt":"x","commit":"prompt"}`,
		"X-Session-ID", "none"), api.ProblemSessionNotFound)
	require.NotNil(t, p.Error)
}
