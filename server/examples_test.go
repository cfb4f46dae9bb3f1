package server

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/metrics"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

func newStoryRig(t *testing.T, open func() (*model.Model, error)) *rig {
	t.Helper()
	store, err := folder.Open(t.TempDir(), folder.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	m, err := open()
	require.NoError(t, err)
	sessions, err := session.NewManager(m, session.Options{Store: store, Threads: 2})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := Options{Metrics: metrics.New(metrics.Options{Models: []string{m.ID()}})}
	return newRigOn(t, sessions, o, l, &http.Transport{})
}

// Each example in the contract, except the examples of problem documents, is made by a request to a
// real server. Values that depend on time or rounding may differ.
func TestExamplesAreWhatAServerAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	newStoryRig(t, model.Default).tell(exchanges)
	newStoryRig(t, modeltest.SmallOfWords).tell(exchangesOfWords)
	names := slices.Collect(maps.Keys(document(t).Components.Examples))
	for _, name := range names {
		known := strings.HasPrefix(name, "problem.")
		for _, x := range slices.Concat(exchanges, exchangesOfWords) {
			known = known ||
				strings.TrimSuffix(strings.TrimSuffix(name, ".request"), ".answer") == x.name
		}
		require.True(t, known, "no exchange makes the example %s", name)
	}
}

func (g *rig) tell(story []exchange) {
	t := g.t
	t.Helper()
	g.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	var export []byte
	etag := ""
	for _, x := range story {
		method, path := x.split()
		var body io.Reader
		if x.body != "" {
			body = strings.NewReader(strings.ReplaceAll(x.body, "{export}", string(export)))
		}
		headers := x.sent()
		for i := range headers {
			headers[i] = strings.ReplaceAll(headers[i], "{etag}", etag)
		}
		resp := g.do(method, path, body, headers...)
		raw, err := []byte(nil), error(nil)
		if strings.HasPrefix(x.name, "watchSession.") {
			raw = g.watched(path, resp)
		} else {
			raw, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		}
		media := resp.Header.Get("Content-Type")
		if strings.HasPrefix(x.name, "getSnapshot.") {
			export = raw
		}
		if tag := resp.Header.Get("ETag"); tag != "" {
			etag = tag
		}
		x.check(t, resp.StatusCode, media, raw)
	}
}

// watched feeds watchedText to a session that a client watches. It returns the bytes of the watch's
// events up to the end of the text.
func (g *rig) watched(path string, watching *http.Response) []byte {
	g.t.Helper()
	session, _, _ := strings.Cut(path, "/events")
	fed := decode[api.SummaryEvent](g.t, g.text(session+"/score", watchedText), http.StatusOK)
	var raw bytes.Buffer
	seen := *watching
	seen.Body = io.NopCloser(io.TeeReader(oneByOne{watching.Body}, &raw))
	for events, at := readEvents(&seen), int64(0); at < fed.Offset; {
		e, err := events.next()
		require.NoError(g.t, err)
		if e.Type == string(api.EventChunk) || e.Type == string(api.EventLine) {
			var told struct{ Offset, Bytes int64 }
			require.NoError(g.t, json.Unmarshal(e.Raw, &told))
			at = told.Offset + told.Bytes
		}
	}
	require.NoError(g.t, watching.Body.Close())
	return raw.Bytes()
}

// oneByOne reads one byte at a time, so that a buffered reader takes no bytes after the last wanted
// event.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

func (x exchange) check(t *testing.T, status int, media string, raw []byte) {
	t.Helper()
	if x.body != "" {
		requireExample(
			t,
			x.name+".request",
			shown{Summary: x.summary},
			requestMedia(x),
			[]byte(x.body),
		)
	}
	answer := shown{
		Summary: x.summary,
		Request: x.request,
		Status:  status,
		Headers: map[string]string{},
	}
	headers := x.sent()
	for i := 0; i < len(headers); i += 2 {
		answer.Headers[headers[i]] = headers[i+1]
	}
	requireExample(t, x.name+".answer", answer, media, raw)
}

func requestMedia(x exchange) string {
	if json.Valid([]byte(x.body)) {
		return contract.MediaJSON
	}
	return textBody
}

func TestEveryOperationAndProblemHasExamples(t *testing.T) {
	doc := document(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				require.NotNil(t, p.Value.Example, "%s: the parameter %s", at, p.Value.Name)
			}
			if op.RequestBody != nil {
				requireContentExamples(t, at, op.RequestBody.Value.Content)
			}
			for status, response := range op.Responses.Map() {
				if strings.HasPrefix(status, "2") {
					requireContentExamples(t, at+" "+status, response.Value.Content)
				}
			}
			requireAnswers(t, at, op)
		}
	}
	quoted := regexp.MustCompile("`([a-z-]+)`")
	for name, response := range doc.Components.Responses {
		examples := response.Value.Content[contract.MediaProblem].Examples
		types, _, _ := strings.Cut(*response.Value.Description, ":")
		var want []string
		for _, match := range quoted.FindAllStringSubmatch(types, -1) {
			want = append(want, match[1])
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(examples)), name)
		requireContentExamples(t, name, response.Value.Content)
	}
	for kind := range problem.Kinds {
		name := "problem." + strings.TrimPrefix(string(kind), "urn:lmserve:problem:")
		require.NotNil(t, doc.Components.Examples[name], name)
	}
}

func requireContentExamples(t *testing.T, at string, content openapi3.Content) {
	t.Helper()
	for media, m := range content {
		if media == contract.MediaProtobuf || media == contract.MediaMsgpack {
			// Binary bodies have no examples, because people could not read them.
			continue
		}
		require.NotEmpty(t, m.Examples, "%s: %s", at, media)
		for name, ref := range m.Examples {
			values := []any{ref.Value.Value}
			if media == contract.MediaEventStream || media == contract.MediaNDJSON {
				values = eventsOf(t, ref.Value.Value.(string))
				require.NotEmpty(t, values, name)
			}
			for _, v := range values {
				raw, err := json.Marshal(v)
				require.NoError(t, err)
				var plain any
				require.NoError(t, json.Unmarshal(raw, &plain))
				require.NoError(
					t,
					m.Schema.Value.VisitJSON(plain),
					"%s: %s: example %s",
					at,
					media,
					name,
				)
			}
		}
	}
}

func requireAnswers(t *testing.T, at string, op *openapi3.Operation) {
	t.Helper()
	if op.RequestBody == nil {
		return
	}
	answers := map[string]bool{}
	for _, response := range op.Responses.Map() {
		for _, m := range response.Value.Content {
			for name := range m.Examples {
				answers[name] = true
			}
		}
	}
	if op.Responses.Status(http.StatusNoContent) != nil {
		return
	}
	for _, m := range op.RequestBody.Value.Content {
		for name := range m.Examples {
			require.True(t, answers[name], "%s: the request %s has no answer", at, name)
		}
	}
}
