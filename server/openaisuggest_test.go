package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

// suggesting makes a server with a session that has learned a repeated line.
func suggesting(t *testing.T) (g *rig, path string) {
	t.Helper()
	g = newOpenAIRig(t, Options{})
	path = g.create(`{"settings":{"companion":true}}`)
	g.text(path+"/score", strings.Repeat("GET /index.html 200\n", 8*modeltest.Chunk/20))
	return g, path
}

// The choices must equal the answers of the session's own suggest route, with and without
// streaming.
func TestOpenAIChoicesAreSuggestions(t *testing.T) {
	g, path := suggesting(t)
	id := strings.TrimPrefix(path, "/v1/sessions/")
	before := g.offsetOf(path)
	for _, c := range []struct{ ask, fields string }{
		{`"n":3`, `"n":3,"suggest":{}`},
		{
			`"n":1,"unit":"word","min_probability":0.1`,
			`"suggest":{"unit":"word","min_probability":0.1}`,
		},
		{
			`"n":5,"unit":"free"`,
			`"n":5,"suggest":{"unit":"free"},"temperature":0.2,"stop":["\n"],"max_tokens":4`,
		},
	} {
		want := decode[api.Suggestions](t, g.json(path+"/suggest", `{"typed":"GET /in",`+c.ask+`}`),
			http.StatusOK).Candidates
		require.NotEmpty(t, want, c.ask)
		body := `{"model":"small","prompt":"GET /in",` + c.fields
		got := g.completed(body+"}", "X-Session-ID", id)
		events := streamed(t, g.json("/v1/completions",
			body+`,"stream":true,"stream_options":{"include_usage":true}}`, "X-Session-ID", id))
		require.Len(t, got.Choices, len(want))
		require.Len(t, events, len(want)+1)
		require.Equal(t, got.Usage, events[len(want)].Usage)
		bytes := 0
		for i, candidate := range want {
			require.Equal(t, candidate.Text, got.Choices[i].Text)
			require.Equal(t, i, got.Choices[i].Index)
			require.InEpsilon(t, candidate.Probability, *got.Choices[i].Probability, 1e-4)
			require.Equal(t, api.FinishStop, *got.Choices[i].FinishReason)
			require.Equal(t, got.Choices[i:i+1], events[i].Choices)
			bytes += len(candidate.Text)
		}
		require.EqualValues(t, bytes, got.Usage.CompletionTokens)
	}
	require.Equal(t, before, g.offsetOf(path))
}

// If no suggestion reaches the minimum probability, the answer has one choice without text. Without
// a session, suggestions depend only on the prompt.
func TestOpenAISuggestionsAreSilentWhereUnsure(t *testing.T) {
	g, path := suggesting(t)
	silent := g.completed(`{"prompt":"qzj","suggest":{"min_probability":1}}`,
		"X-Session-ID", strings.TrimPrefix(path, "/v1/sessions/"))
	require.Len(t, silent.Choices, 1)
	require.Empty(t, silent.Choices[0].Text)
	require.Nil(t, silent.Choices[0].Probability)

	prompt := strings.Repeat("GET /index.html 200\n", 80) + "GET /in"
	raw, err := json.Marshal(prompt)
	require.NoError(t, err)
	sure := g.completed(fmt.Sprintf(`{"prompt":%s,"suggest":{"min_probability":0.6}}`, raw))
	require.Equal(t, "dex.html 200", sure.Choices[0].Text)
	require.Greater(t, *sure.Choices[0].Probability, 0.6)
}
