package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

func TestSessionsAreCreatedReadListedAndDeleted(t *testing.T) {
	g := newRig(t, Options{})

	plain := decode[api.Session](t, g.do("POST", "/v1/sessions", nil), http.StatusCreated)
	require.Equal(t, api.MethodSparseMeta, plain.Settings.Method)
	require.Nil(t, plain.Totals.BPC, "nothing was scored, so nothing has a ratio")

	made := g.json("/v1/sessions",
		`{"settings":{"chunk":8,"p":0.25,"baseline":true},"seed":9007199254740991,`+
			`"labels":{"a":"b"},"ttl_seconds":60}`)
	info := decode[api.Session](t, made, http.StatusCreated)
	require.Equal(t, "/v1/sessions/"+info.ID, made.Header.Get("Location"))
	require.Equal(t, 8, info.Settings.Chunk)
	require.Equal(t, 0.25, info.Settings.P)
	require.True(t, info.Settings.Baseline)
	require.EqualValues(t, limits.SeedMax, info.Seed)
	require.Equal(t, api.Labels{"a": "b"}, *info.Labels)
	require.EqualValues(t, 60, info.TTLSeconds)

	require.Equal(t, info.ID, decode[api.Session](t, g.do("GET", "/v1/sessions/"+info.ID, nil),
		http.StatusOK).ID)
	require.Equal(t, http.StatusNoContent, g.do("DELETE", "/v1/sessions/"+info.ID, nil).StatusCode)
	requireProblem(t, g.do("GET", "/v1/sessions/"+info.ID, nil), api.ProblemSessionNotFound)
	requireProblem(t, g.do("DELETE", "/v1/sessions/"+info.ID, nil), api.ProblemSessionNotFound)
}

func TestSettingsGoThroughBothWays(t *testing.T) {
	g := newRig(t, Options{})
	for _, method := range []string{session.MethodStatic, session.MethodSparseMeta,
		session.MethodDynamicSGD, session.MethodDynamicRMS, session.MethodCache} {
		body := `"method":"` + method +
			`","chunk":9,"p":0.25,"gammas":[0.5],"beta1":0.125,"beta2":2,"skip_below":1.5,` +
			`"rate":0.5,"decay":0.75,"floor":3,` +
			`"cache_size":11,"theta":4,"lambda":0.375,"companion":true,"companion_bytes":65536,` +
			`"companion_static":true,"baseline":true`
		g.create(`{"settings":{` + body + `}}`)
		asked := g.fake.asked.Settings
		text, err := json.Marshal(codec.EncodeSettings(asked))
		require.NoError(t, err)
		require.Equal(t, "{"+body+"}", string(text), "in the order in which one reads it")
		require.Equal(t, method, asked["method"])
	}
	g.create(`{"settings":{}}`)
	require.Equal(t, session.Settings{}, g.fake.asked.Settings, "what is left out is left to the "+
		"manager")
}

func TestListPagesThroughAllSessionsOnce(t *testing.T) {
	g := newRig(t, Options{})
	var made, seen []string
	for range 7 {
		made = append(made, strings.TrimPrefix(g.create("{}"), "/v1/sessions/"))
	}
	query := "?limit=3"
	for pages := 1; ; pages++ {
		page := decode[api.SessionList](t, g.do("GET", "/v1/sessions"+query, nil), http.StatusOK)
		for _, s := range page.Sessions {
			seen = append(seen, s.ID)
		}
		if page.Next == nil {
			require.Equal(t, 3, pages)
			break
		}
		query = "?limit=3&after=" + *page.Next
	}
	require.Equal(t, made, seen)
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions, 7)
}

func TestScoreTakesTextBytesAndJSON(t *testing.T) {
	g := newRig(t, Options{})
	const text = "Grüße, world! And the same again: Grüße, world!"
	bodies := []struct{ contentType, body string }{
		{"text/plain", text},
		{"text/plain; charset=UTF-8", text},
		{"application/octet-stream", text},
		{"", text},
		{"application/json", fmt.Sprintf(`{"text":%q}`, text)},
		{"application/json; charset=utf-8", fmt.Sprintf(`{"base64":%q}`,
			base64.StdEncoding.EncodeToString([]byte(text)))},
	}
	var first float64
	for i, b := range bodies {
		path := g.create("{}")
		headers := []string{"Content-Type", b.contentType}
		if b.contentType == "" {
			headers = nil
		}
		sum := decode[api.SummaryEvent](t, g.do("POST", path+"/score", strings.NewReader(b.body),
			headers...), http.StatusOK)
		require.EqualValues(t, len(text), sum.Bytes)
		require.EqualValues(t, len(text), sum.Offset)
		require.InDelta(t, sum.Bits/float64(len(text)), *sum.BPC, 1e-12)
		if i == 0 {
			first = sum.Bits
		}
		require.Equal(t, first, sum.Bits, b.contentType)
	}
}

func TestScoreOfNothingIsASummaryOfNothing(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for _, body := range []io.Reader{nil, strings.NewReader(""), io.MultiReader()} {
		sum := decode[api.SummaryEvent](t, g.do("POST", path+"/score", body, "Content-Type",
			"text/plain"), http.StatusOK)
		require.Zero(t, sum.Bytes)
		require.Nil(t, sum.BPC)
		require.Nil(t, sum.Perplexity)
	}
	require.Zero(t, decode[api.SummaryEvent](t, g.json(path+"/score", `{"text":""}`),
		http.StatusOK).Bytes)
}

func TestScoreEventsAddUpToTheSummary(t *testing.T) {
	g := newRig(t, Options{})
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON} {
		path := g.create(`{"settings":{"chunk":16,"baseline":true}}`)
		resp := g.text(path+"/score?logprobs=true&offset=0", strings.Repeat("abcd", 25), "Accept",
			accept)
		require.Equal(t, accept, resp.Header.Get("Content-Type"))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		events := readEvents(resp).all(t)

		var bytes int64
		var bits, baseline float64
		for i, e := range events[:len(events)-1] {
			c := as[api.ChunkEvent](t, e)
			require.Equal(t, api.EventChunk, c.Type)
			require.Regexp(t, `^{"type":"chunk","step":\d+,"offset":`, string(e.Raw),
				"in the order in which one reads it")
			require.Equal(t, bytes, c.Offset)
			require.Len(t, c.Logprobs, int(c.Tokens))
			bytes, bits, baseline = bytes+c.Bytes, bits+c.Bits, baseline+*c.BaselineBits
			require.Equal(t, bytes, c.Totals.Bytes)
			require.InDelta(t, bits, c.Totals.Bits, 1e-9)
			require.InDelta(t, math.Exp2(c.Bits/float64(c.Tokens)), *c.Perplexity, 1e-9)
			require.EqualValues(t, i, c.Step)
			require.EqualValues(t, i, c.Adapted.Updates, "scored before the update that it causes")
			require.Equal(t, c.Complete, c.Totals.Bytes%16 == 0)
			if accept == contract.MediaEventStream {
				require.Equal(t, fmt.Sprint(c.Totals.Bytes), e.ID)
			}
		}
		last := as[api.SummaryEvent](t, events[len(events)-1])
		require.Equal(t, api.EventSummary, last.Type)
		require.EqualValues(t, 100, last.Bytes)
		require.Equal(t, bytes, last.Offset)
		require.EqualValues(t, len(events)-1, last.Chunks)
		require.InDelta(t, bits, last.Bits, 1e-9)
		require.InDelta(t, baseline, *last.BaselineBits, 1e-9)
		require.InDelta(t, 8, *last.BaselineBPC, 1e-12)
		require.Less(t, *last.BPC, 8.0, "the fake adapts")
	}
}

func TestOffsetConflictNamesOffsetAndChangesNothing(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	g.text(path+"/score?offset=0", "0123456789")
	for _, accept := range []string{contract.MediaJSON, contract.MediaNDJSON,
		contract.MediaEventStream} {
		p := requireProblem(t, g.text(path+"/score?offset=4", "x", "Accept", accept),
			api.ProblemOffsetConflict)
		require.EqualValues(t, 10, *p.Offset)
		require.Equal(t, "4", *p.Found)
		require.Equal(t, "10", *p.Expected)
	}
	require.EqualValues(t, 10, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
	require.EqualValues(t, 11, decode[api.SummaryEvent](t, g.text(path+"/score?offset=10", "x"),
		http.StatusOK).Offset)
}

func TestCompletionWholeAndStreamed(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}") + "/complete"

	whole := decode[api.Completion](t,
		g.json(path, `{"prompt":"añb","max_tokens":10,"seed":3,"logprobs":true}`), http.StatusOK)
	require.Equal(t, "añbañb"+"a\uFFFD", whole.Text, "ten bytes end inside a character")
	require.Equal(t, []byte("añbañba\xc3"), whole.TextBase64)
	require.Equal(t, api.FinishLength, whole.FinishReason)
	require.Len(t, whole.Logprobs, 10)
	require.EqualValues(t, 3, whole.Seed)
	require.Equal(t, api.Usage{PromptTokens: 4, CompletionTokens: 10, TotalTokens: 14}, whole.Usage)
	require.Zero(t, whole.Offset)

	resp := g.json(path,
		`{"prompt":"abc","max_tokens":10,"stop":["zz","ca"],"stream":true,"commit":"prompt",`+
			`"temperature":0,"top_k":5,"top_p":0.5}`)
	require.Equal(t, contract.MediaEventStream, resp.Header.Get("Content-Type"))
	events := readEvents(resp).all(t)
	require.Len(t, events, 2)
	require.Equal(t, "ab", as[api.PieceEvent](t, events[0]).Text)
	done := as[api.DoneEvent](t, events[1])
	require.Equal(t, api.FinishStop, done.FinishReason)
	require.EqualValues(t, 3, done.Offset)

	one := decode[api.Completion](t, g.json(path, `{"prompt_base64":"eHl6","stop":"z"}`),
		http.StatusOK)
	require.Equal(t, "xy", one.Text)
	require.Nil(t, one.TextBase64)

	refused := decode[api.Problem](t, g.json(path, `{"top_logprobs":21}`),
		http.StatusUnprocessableEntity)
	require.Equal(t, "top_logprobs", *refused.Field)

	byDefault := decode[api.Completion](t, g.json(path, `{}`), http.StatusOK)
	require.EqualValues(t, limits.CompletionTokensDefault, byDefault.Usage.CompletionTokens)
}

func TestModelsHealthReadinessAndContract(t *testing.T) {
	g := newRig(t, Options{})
	models := decode[api.ModelList](t, g.do("GET", "/v1/models", nil), http.StatusOK)
	require.Len(t, models.Data, 1)
	require.Equal(t, "fake-0", models.Data[0].ID)
	require.JSONEq(t, `{"vocab":256}`, string(models.Data[0].Config))
	require.Equal(t, api.StatusOK, decode[api.ServiceStatus](t, g.do("GET", "/healthz", nil),
		http.StatusOK).Status)
	require.Equal(t, api.StatusReady, decode[api.ServiceStatus](t, g.do("GET", "/readyz", nil),
		http.StatusOK).Status)

	resp := g.do("GET", "/openapi.yaml", nil)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "application/yaml", resp.Header.Get("Content-Type"))
	require.Equal(t, api.YAML, raw)

	head := g.do("HEAD", "/openapi.yaml", nil)
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.EqualValues(t, len(api.YAML), head.ContentLength)
}
