package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
)

type editorRequest struct {
	// project, file and commit from which the body was copied
	Origin  string            `json:"origin"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Stream  bool              `json:"stream"` // The answer is a stream of server-sent events.
	// path to the sampled text in the answer, such as "choices.0.text"
	Text string `json:"text"`
}

func (x editorRequest) send(g *rig, model string) *http.Response {
	headers := []string{}
	for name, value := range x.Headers {
		headers = append(headers, name, value)
	}
	body := bytes.ReplaceAll(x.Body, []byte("{model}"), []byte(model))
	return g.do("POST", x.Path, bytes.NewReader(body), headers...)
}

func textAt(t *testing.T, raw []byte, path string) string {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(raw, &v), string(raw))
	for name := range strings.SplitSeq(path, ".") {
		if i, err := strconv.Atoi(name); err == nil {
			v = v.([]any)[i]
		} else {
			v = v.(map[string]any)[name]
		}
	}
	return v.(string)
}

func TestEditorsAreAnsweredAsTheyAsk(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	files, err := filepath.Glob("testdata/editors/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var x editorRequest
			require.NoError(t, json.Unmarshal(raw, &x))
			require.NotEmpty(t, x.Origin)
			resp := x.send(g, "small")
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, string(answer))
			if !x.Stream {
				require.Equal(t, contract.MediaJSON, resp.Header.Get("Content-Type"))
				textAt(t, answer, x.Text)
				return
			}
			require.Equal(t, contract.MediaEventStream, resp.Header.Get("Content-Type"))
			events := strings.Split(strings.TrimSpace(string(answer)), "\n\n")
			require.Equal(t, "data: [DONE]", events[len(events)-1])
			for _, event := range events[:len(events)-1] {
				textAt(t, []byte(strings.TrimPrefix(event, "data: ")), x.Text)
			}
		})
	}
}

// The interfaces of all editors fill the same gap with the same text.
func TestEditorsInterfacesFillAlike(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	const prefix, suffix = `GET /index.html\nGET /`, ` 200\n`
	const marked = `<fim_prefix>` + prefix + `<fim_suffix>` + suffix + `<fim_middle>`
	want := textAt(t, readAll(t, g.json("/v1/completions", `{"model":"small","prompt":"`+prefix+
		`","suffix":"`+suffix+`","max_tokens":20,"temperature":0}`)), "choices.0.text")
	for path, c := range map[string][2]string{
		"/v1/completions": {
			`{"model":"small","prompt":"` + marked + `","max_tokens":20,"temperature":0}`,
			"choices.0.text",
		},
		"/v1/fim/completions": {
			`{"prompt":"` + prefix + `","suffix":"` + suffix + `","max_tokens":20}`,
			"choices.0.message.content",
		},
		"/generate": {
			`{"inputs":"` + marked + `","parameters":{"max_new_tokens":20}}`, "generated_text",
		},
		"/api/generate": {
			`{"prompt":"` + prefix + `","suffix":"` + suffix + `","options":{"num_predict":20}}`,
			"response",
		},
		"/completion": {`{"prompt":"` + marked + `","n_predict":20}`, "content"},
		"/infill": {
			`{"input_prefix":"GET /index.html\n","prompt":"GET /","input_suffix":"` + suffix +
				`","n_predict":20}`, "content",
		},
	} {
		require.Equal(t, want, textAt(t, readAll(t, g.json(path, c[0])), c[1]), path)
	}
}

// In a list of prompts, markers are ordinary text, even if the list has only one prompt. Otherwise
// the text for a prompt would depend on the other prompts.
func TestMarkersInAListOfPromptsAreText(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	texts := func(prompts string) (all []string) {
		answer := decode[api.OpenAICompletion](t, g.json("/v1/completions",
			`{"model":"small","max_tokens":20,"seed":1,"prompt":[`+prompts+`]}`), http.StatusOK)
		for _, c := range answer.Choices {
			all = append(all, c.Text)
		}
		return all
	}
	const prompt = `"<fim_prefix>GET /<fim_suffix> 200\n<fim_middle>"`
	alone, beside := texts(prompt), texts(prompt+`,"x"`)
	require.Equal(t, beside[0], alone[0])
}

func readAll(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))
	return raw
}

// An invalid field gets an error in the form of OpenAI's interface.
func TestEditorsErrorsHaveTheEnvelope(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	for path, body := range map[string]string{
		"/v1/fim/completions":   `{"prompt":1}`,
		"/generate":             `{}`,
		"/api/generate":         `{"prompt":"x","options":{"temperature":-1}}`,
		"/completion":           `{"top_p":0}`,
		"/infill":               `{"stop":7}`,
		"/tabby/v1/completions": `{"segments":{}}`,
	} {
		resp := g.json(path, body)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, path)
		problem := decode[api.Problem](t, resp, http.StatusBadRequest)
		require.NotNil(t, problem.Error, path)
		require.Equal(t, api.OpenAIInvalidRequest, problem.Error.Type)
	}
	resp := g.json("/v1/fim/completions", `{"model":"codestral-latest","prompt":"x"}`)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// The server uses only the end of a prefix that is too long.
func TestEditorsMaySendLongPrefixes(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	text := strings.Repeat("x", 65000)
	body := `{"input_extra":[{"text":"` + text + `"}],"prompt":"` + text + `","n_predict":1}`
	readAll(t, g.json("/infill", body))
}
