package server

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// The sampling fields that OpenAI's API lacks give the same text as in the server's own completion
// route.
func TestExtraFieldsSampleAsCompletionsDo(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create(`{"seed":3}`)
	g.text(path+"/score", numbered(1, 200))
	broken := regexp.MustCompile("\uFFFD+") // one or more invalid bytes
	id := strings.TrimPrefix(path, "/v1/sessions/")
	plain, other := "", 0
	for _, fields := range []string{
		``, `,"top_k":3`, `,"min_p":0.5`, `,"dry":10,"temperature":0`,
		`,"top_k":20,"min_p":0.1,"top_p":0.9`,
	} {
		body := `{"prompt":"GET /","max_tokens":60,"seed":7` + fields + `}`
		want := decode[api.Completion](t, g.json(path+"/complete", body), http.StatusOK)
		got := g.completed(body, "X-Session-ID", id).Choices[0].Text
		require.Equal(t, broken.ReplaceAllString(want.Text, "."),
			broken.ReplaceAllString(got, "."), fields)
		if plain == "" {
			plain = got
		} else if got != plain {
			other++
		}
	}
	require.Equal(t, 4, other, "each of them makes a difference")
	for _, none := range []string{
		`"top_k":-1`, `"top_k":0`, `"min_p":0`, `"dry":0.8`, `"repetition_penalty":1.0`,
		`"top_k":null,"min_p":null,"dry":null,"repetition_penalty":null`,
		`"commit":null,"offset":null,"suggest":null`,
	} {
		body := `{"prompt":"GET /","max_tokens":60,"seed":7,` + none + `}`
		require.Equal(t, plain, g.completed(body, "X-Session-ID", id).Choices[0].Text, none)
	}
}

// A request without a model uses the model of its session, or the default model.
func TestNoModelIsThatOfTheSession(t *testing.T) {
	other, err := modeltest.New(20)
	require.NoError(t, err)
	other.Name = "lmserve-other"
	from, _, err := model.NewSource(func() (*model.Model, error) { return other, nil })
	require.NoError(t, err)
	g := newOpenAIRigOf(t, Options{}, session.Options{Others: []*model.Source{from}})
	small := decode[api.ModelList](t, g.do("GET", "/v1/models", nil), http.StatusOK).Data[0].ID
	id := strings.TrimPrefix(g.create(`{"model":"lmserve-other"}`), "/v1/sessions/")
	for _, field := range []string{``, `"model":null,`, `"user":"nobody",`} {
		body := `{` + field + `"prompt":"x","max_tokens":1}`
		require.Equal(t, small, g.completed(body).Model)
		require.Equal(t, other.ID(), g.completed(body, "X-Session-ID", id).Model)
	}
	require.Equal(t, other.ID(), g.completed(`{"prompt":"x","max_tokens":1,"user":"`+id+`"}`).Model)
	requireProblem(t, g.json("/v1/completions", `{"prompt":"x"}`, "X-Session-ID", "none"),
		api.ProblemSessionNotFound)
}

// For routes of OpenAI's API that the server lacks, the error names an alternative, in OpenAI's
// format.
func TestPathsThatOpenAIHasSayWhatToUse(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "k"})
	g := newRig(t, Options{Keys: ring.Ring})
	key := ring.token["k"]
	for path, want := range map[string]string{
		"/v1/chat/completions":    "This server has no chat model; use /v1/completions.",
		"/v1/responses":           "This server has no chat model; use /v1/completions.",
		"/v1/responses/resp_1":    "This server has no chat model; use /v1/completions.",
		"/v1/embeddings":          "This server has no embeddings. ",
		"/v1/images/generations":  "Of OpenAI's interface, this server has /v1/completions, ",
		"/v1/audio/transcription": "Of OpenAI's interface, this server has /v1/completions, ",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			g.key = key
			resp := g.do(method, path, strings.NewReader("{}"))
			p := decode[api.Problem](t, resp, http.StatusNotFound)
			require.Equal(t, api.ProblemNotFound, p.Type)
			require.NotNil(t, p.Error)
			require.Contains(t, p.Error.Message, want, path)
			require.Equal(t, "not_found", p.Error.Code)
			require.Equal(t, api.OpenAIInvalidRequest, p.Error.Type)
			g.key = ""
			resp = g.do(method, path, strings.NewReader("{}"))
			p = decode[api.Problem](t, resp, http.StatusUnauthorized)
			require.Equal(t, "invalid_api_key", p.Error.Code)
		}
	}
	g.key = key
	for _, path := range []string{"/v1/nothing", "/v1/sessions/x/chat", "/chat/completions"} {
		p := decode[api.Problem](t, g.do("GET", path, nil), http.StatusNotFound)
		require.Nil(t, p.Error, path)
	}
}

// The creation date of a model is the start of the server, and does not change.
func TestModelsHaveDates(t *testing.T) {
	before := time.Now().Unix()
	g := newOpenAIRig(t, Options{})
	for range 2 {
		created := decode[api.Model](t, g.do("GET", "/v1/models/small", nil), http.StatusOK).Created
		require.GreaterOrEqual(t, created, before)
		require.LessOrEqual(t, created, time.Now().Unix())
		list := decode[api.ModelList](t, g.do("GET", "/v1/models", nil), http.StatusOK)
		require.Equal(t, created, list.Data[0].Created)
	}
}
