package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// newOpenAIRig is a rig with the real session manager behind it, whose answers are held against the
// contract.
func newOpenAIRig(t *testing.T, o Options) *rig {
	t.Helper()
	m, err := modeltest.Small()
	require.NoError(t, err)
	sessions, err := session.NewManager(m, session.Options{Threads: 2})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newRigOn(t, sessions, o, l, &http.Transport{})
}

// logProbs is the block `logprobs` as a client reads it.
type logProbs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogProbs []*float64           `json:"token_logprobs"`
	TopLogProbs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

func logProbsOf(t *testing.T, c api.OpenAIChoice) (block logProbs) {
	t.Helper()
	require.NotNil(t, c.Logprobs)
	require.NoError(t, json.Unmarshal(*c.Logprobs, &block))
	n := len(block.Tokens)
	require.Equal(t, []int{n, n, n}, []int{len(block.TokenLogProbs), len(block.TopLogProbs), len(block.TextOffset)})
	return block
}

// completed sends a request to /v1/completions, and reads the answer.
func (g *rig) completed(body string, headers ...string) api.OpenAICompletion {
	g.t.Helper()
	return decode[api.OpenAICompletion](g.t, g.json("/v1/completions", body, headers...), http.StatusOK)
}

// streamed reads a streamed answer to its end.
func streamed(t *testing.T, resp *http.Response) (events []api.OpenAICompletion) {
	t.Helper()
	require.Equal(t, contract.MediaEventStream, resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !isData:
			require.Fail(t, "a line that is no data", lines.Text())
		case data == "[DONE]":
			require.False(t, lines.Scan() && lines.Scan(), "nothing follows")
			return events
		default:
			events = append(events, as[api.OpenAICompletion](t, event{Raw: []byte(data)}))
		}
	}
	require.Fail(t, "the stream ends without [DONE]")
	return nil
}

func ids(text string) []int {
	ids := make([]int, len(text))
	for i := range len(text) {
		ids[i] = int(text[i])
	}
	return ids
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// staticLogProbs are the log-probabilities that the score route gives a text which is the first of
// its session, under the static model.
func staticLogProbs(t *testing.T, g *rig, text string) (all []float64) {
	t.Helper()
	path := g.create(`{"settings":{"method":"static"}}`)
	for _, e := range readEvents(g.text(path+"/score?logprobs=true", text, "Accept", contract.MediaNDJSON)).all(t) {
		all = append(all, as[api.ChunkEvent](t, e).Logprobs...)
	}
	require.Len(t, all, len(text))
	return all
}

// The requests, and the arithmetic on the answers, are those of lm-evaluation-harness's
// local-completions: the log-probability of a continuation is the sum of
// token_logprobs[ctxlen:-1], and the continuation is greedy if each of them is the greatest of its
// dictionary.
func TestPromptsAreScoredAsTheHarnessDoesIt(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	type pair struct{ context, continuation string }
	pairs := []pair{
		{"Q: Which bird cannot fly?\nA:", " The penguin."},
		{"GET /index.html from 10.0.0.7 -> ", "200\n"},
		{"\n", "añb €"},
		{numbered(1, 300), numbered(2, 40)},
	}
	var tokens [][]int
	var texts []string
	for _, p := range pairs {
		texts = append(texts, p.context+p.continuation)
		tokens = append(tokens, ids(p.context+p.continuation))
	}
	payload := func(prompt any) map[string]any {
		return map[string]any{"model": "small", "prompt": prompt, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true}
	}
	answers := [][]api.OpenAIChoice{}
	for _, prompt := range []any{tokens, texts} {
		answers = append(answers, g.completed(asJSON(t, payload(prompt))).Choices)
	}
	var one []api.OpenAIChoice
	for _, text := range texts { // a batch of one is sent without a list, or as a list of one
		choice := g.completed(asJSON(t, payload(text))).Choices[0]
		require.Equal(t, choice, g.completed(asJSON(t, payload([]string{text}))).Choices[0])
		require.Equal(t, choice, g.completed(asJSON(t, payload(ids(text)))).Choices[0])
		choice.Index = len(one)
		one = append(one, choice)
	}
	require.Equal(t, answers[0], answers[1], "texts and tokens")
	require.Equal(t, answers[0], one, "each prompt is scored by itself")

	for i, choice := range answers[0] {
		require.Equal(t, i, choice.Index)
		ctxlen, want := len(pairs[i].context), staticLogProbs(t, g, texts[i])
		block := logProbsOf(t, choice)
		require.Len(t, block.Tokens, len(texts[i])+1, "and the token that was sampled")
		require.Nil(t, block.TokenLogProbs[0])
		require.Nil(t, block.TopLogProbs[0])
		sum, bits, greedy := 0., 0., true
		for k, logProb := range block.TokenLogProbs[ctxlen : len(block.TokenLogProbs)-1] {
			sum += *logProb
			bits -= want[ctxlen+k] / math.Ln2
			top := block.TopLogProbs[ctxlen+k]
			require.NotEmpty(t, top)
			greatest := math.Inf(-1)
			for _, v := range top {
				greatest = math.Max(greatest, v)
			}
			require.Equal(t, *logProb, top[block.Tokens[ctxlen+k]], "the token is in its dictionary")
			greedy = greedy && *logProb == greatest
		}
		// Both are sums of the same float32 numbers, in another order of chunks.
		require.InDelta(t, bits, -sum/math.Ln2, 1e-4)
		require.Equal(t, isGreedy(t, g, pairs[i].context, pairs[i].continuation), greedy)
	}

	// A continuation that the model itself writes is greedy.
	said := g.completed(`{"model":"small","prompt":"GET /","max_tokens":12,"temperature":0,"logprobs":0}`).Choices[0]
	var own []int
	for _, name := range logProbsOf(t, said).Tokens {
		own = append(own, idOf(t, name))
	}
	require.True(t, isGreedy(t, g, "GET /", string(bytesOf(own))))
	again := logProbsOf(t, g.completed(asJSON(t, payload(append(ids("GET /"), own...)))).Choices[0])
	for k := len("GET /"); k < len(again.Tokens)-1; k++ {
		require.Len(t, again.TopLogProbs[k], 1, "the likeliest token is the token")
	}
}

// isGreedy says by completions of the context whether the likeliest tokens make the continuation.
func isGreedy(t *testing.T, g *rig, context, continuation string) bool {
	t.Helper()
	body := asJSON(t, map[string]any{"model": "small", "prompt": context, "temperature": 0, "max_tokens": len(continuation), "logprobs": 0})
	var said []int
	for _, name := range logProbsOf(t, g.completed(body).Choices[0]).Tokens {
		said = append(said, idOf(t, name))
	}
	return string(bytesOf(said)) == continuation
}

// idOf reads the name of a token.
func idOf(t *testing.T, name string) int {
	t.Helper()
	id := 0
	if n, _ := fmt.Sscanf(name, `bytes:\x%02x`, &id); n == 1 {
		return id
	}
	require.Len(t, name, 1)
	return int(name[0])
}

func bytesOf(ids []int) (text []byte) {
	for _, id := range ids {
		text = append(text, byte(id))
	}
	return text
}

// With a session a prompt is scored as the text that follows the session's: to the bits of feeding
// it to a fork, as long as nothing is learnt on the way.
func TestASessionIsContinuedAndLeftAsItWas(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create(`{"seed":3}`)
	g.text(path+"/score", numbered(1, 10*modeltest.Chunk+1))
	before := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	prompt := numbered(2, modeltest.Chunk-2)
	body := asJSON(t, map[string]any{"model": "small", "prompt": prompt, "max_tokens": 5, "temperature": 0, "echo": true, "logprobs": 3})
	for _, name := range []string{"header", "user"} {
		request, header := body, []string{"X-Session-ID", before.ID, "X-Request-Id", "r"}
		if name == "user" {
			request, header = strings.Replace(body, "{", fmt.Sprintf(`{"user":%q,`, before.ID), 1), header[2:]
		}
		resp := g.json("/v1/completions", request, header...)
		require.Equal(t, before.ID, resp.Header.Get("X-Session-ID"))
		choice := decode[api.OpenAICompletion](t, resp, http.StatusOK).Choices[0]
		block := logProbsOf(t, choice)

		fork := decode[api.Session](t, g.json(path+"/fork", "{}"), http.StatusCreated)
		chunks := readEvents(g.text("/v1/sessions/"+fork.ID+"/score?logprobs=true", prompt, "Accept", contract.MediaNDJSON)).all(t)
		want := as[api.ChunkEvent](t, chunks[0]).Logprobs
		require.Len(t, want, len(prompt))
		for i := 1; i < len(prompt); i++ {
			require.InDelta(t, want[i], *block.TokenLogProbs[i], 1e-5)
		}
		said := decode[api.Completion](t, g.json(path+"/complete", asJSON(t, map[string]any{"prompt": prompt, "max_tokens": 5, "temperature": 0})), http.StatusOK)
		require.Equal(t, prompt+said.Text, choice.Text)
	}
	after := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	require.True(t, after.LastUsedAt.After(before.LastUsedAt))
	before.LastUsedAt = after.LastUsedAt
	require.Equal(t, before, after)
	require.NotEqual(t, g.completed(body).Choices[0].Logprobs, g.completed(body, "X-Session-ID", before.ID).Choices[0].Logprobs, "the session has learnt")
}

func TestTheLegacyBlockToTheLetter(t *testing.T) {
	g := newRig(t, Options{})
	g.fake.max = 1
	answer := g.completed(`{"model":"fake","prompt":"añ\"","max_tokens":2,"echo":true,"logprobs":2,"n":2,"stop":null,"suffix":null}`, "X-Request-Id", "a-b")
	require.Equal(t, "cmpl-a-b", answer.ID)
	require.Equal(t, "fake-0", answer.Model)
	require.Equal(t, api.ObjectTextCompletion, answer.Object)
	require.InDelta(t, time.Now().Unix(), answer.Created, 60)
	require.Equal(t, &api.OpenAIUsage{PromptTokens: 4, CompletionTokens: 4, TotalTokens: 8}, answer.Usage)
	require.Len(t, answer.Choices, 2)
	for i, c := range answer.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, "añ\"a\uFFFD", c.Text)
		require.Equal(t, api.FinishLength, *c.FinishReason)
		require.JSONEq(t, `{
			"tokens": ["a", "bytes:\\xc3", "bytes:\\xb1", "\"", "a", "bytes:\\xc3"],
			"token_logprobs": [null, -2, -2, -2, -1, -1],
			"top_logprobs": [null, {"bytes:\\xc3": -2}, {"bytes:\\xb1": -2}, {"\"": -2}, {"a": -1}, {"bytes:\\xc3": -1}],
			"text_offset": [0, 1, 1, 2, 3, 4]
		}`, string(*c.Logprobs))
	}
	raw, err := io.ReadAll(g.json("/v1/completions", `{"model":"fake-0","prompt":[97,98]}`, "X-Request-Id", "x").Body)
	require.NoError(t, err)
	require.Regexp(t, `^\{"id":"cmpl-x","object":"text_completion","created":[0-9]+,"model":"fake-0",`+
		`"choices":\[\{"text":"abababababababab","index":0,"logprobs":null,"finish_reason":"length"\}\],`+
		`"usage":\{"prompt_tokens":2,"completion_tokens":16,"total_tokens":18\}\}`, string(raw))
	require.Empty(t, g.fake.sessions, "a completion without a session leaves none")

	stopped := g.completed(`{"model":"fake","prompt":["abc","xyz"],"max_tokens":9,"stop":["zx","bca"],"logprobs":1}`)
	require.Equal(t, []string{"a", "xy"}, []string{stopped.Choices[0].Text, stopped.Choices[1].Text})
	require.Equal(t, api.FinishStop, *stopped.Choices[0].FinishReason)
	require.Equal(t, []int{0, 1}, logProbsOf(t, stopped.Choices[1]).TextOffset)
	require.NotNil(t, logProbsOf(t, stopped.Choices[1]).TokenLogProbs[0], "without echo each token has a score")
	require.EqualValues(t, 8, stopped.Usage.CompletionTokens, "those of the stop strings, too")
}

// The events of a stream make the answer that is given as a whole.
func TestAStreamedAnswerIsTheWholeInPieces(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	for name, fields := range map[string]string{
		"one text":          `"prompt":"GET /"`,
		"texts and prompts": `"prompt":["GET /ñ","","POST"],"n":2,"logprobs":2`,
		"echo":              `"prompt":[[1,195],[177,2,255]],"n":2,"echo":true,"logprobs":3,"stop":["a","\n"]`,
		"nothing sampled":   `"prompt":"añb","max_tokens":0,"echo":true,"logprobs":0`,
		"nothing at all":    `"prompt":"","max_tokens":0`,
	} {
		t.Run(name, func(t *testing.T) {
			body := func(more string) string {
				return `{"model":"small","seed":5,"user":"nobody's id",` + strings.TrimPrefix(fields+more, " ") + `}`
			}
			whole := g.completed(body(""), "X-Request-Id", "r")
			events := streamed(t, g.json("/v1/completions", body(`,"stream":true,"stream_options":{"include_usage":true}`), "X-Request-Id", "r"))
			last := events[len(events)-1]
			require.Empty(t, last.Choices)
			require.Equal(t, whole.Usage, last.Usage)
			texts, blocks := make([]api.OpenAIChoice, len(whole.Choices)), make([]logProbs, len(whole.Choices))
			for _, e := range events[:len(events)-1] {
				require.Nil(t, e.Usage)
				require.Len(t, e.Choices, 1)
				require.Equal(t, whole.ID, e.ID)
				require.Equal(t, whole.Model, e.Model)
				c := e.Choices[0]
				require.Nil(t, texts[c.Index].FinishReason, "nothing follows the last piece")
				texts[c.Index] = api.OpenAIChoice{Text: texts[c.Index].Text + c.Text, Index: c.Index, FinishReason: c.FinishReason}
				if whole.Choices[0].Logprobs == nil {
					require.Nil(t, c.Logprobs)
					continue
				}
				piece, block := logProbsOf(t, c), &blocks[c.Index]
				block.Tokens, block.TokenLogProbs = append(block.Tokens, piece.Tokens...), append(block.TokenLogProbs, piece.TokenLogProbs...)
				block.TopLogProbs, block.TextOffset = append(block.TopLogProbs, piece.TopLogProbs...), append(block.TextOffset, piece.TextOffset...)
			}
			for i, c := range whole.Choices {
				want := c
				if c.Logprobs != nil {
					block := logProbsOf(t, c)
					for k, at := range block.TextOffset { // an offset is the place of the token in the text
						if len(block.Tokens[k]) == 1 {
							require.Equal(t, block.Tokens[k], string([]rune(c.Text)[at]))
						}
					}
					require.Equal(t, len(block.Tokens) == 0, len(blocks[i].Tokens) == 0)
					if len(block.Tokens) > 0 {
						require.Equal(t, block, blocks[i])
					}
					want.Logprobs = nil
				}
				require.Equal(t, want, texts[i])
			}
			require.NotContains(t, asJSON(t, streamed(t, g.json("/v1/completions", body(`,"stream":true`)))), `"usage"`)
		})
	}
}

func TestASeedGivesTheSameTexts(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	texts := func(fields string) (all []string) {
		for _, c := range g.completed(`{"model":"small","max_tokens":30,` + fields + `}`).Choices {
			all = append(all, c.Text)
		}
		return all
	}
	three := texts(`"prompt":["GET","GET"],"n":3,"seed":7`)
	require.Equal(t, three[:3], three[3:], "a text does not depend on the prompts beside its own")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(three[:3]))), 3, "texts after one prompt differ")
	require.Equal(t, three[1:2], texts(`"prompt":"GET","seed":8`), "the seed of the next is one more")
	require.NotEqual(t, texts(`"prompt":"GET"`), texts(`"prompt":"GET"`))
	require.Equal(t, texts(`"prompt":"GET","temperature":0`), texts(`"prompt":"GET","temperature":0,"n":1,"best_of":1,"seed":3`))
}

func TestATokenizerForHarnesses(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	info := decode[map[string]any](t, g.do("GET", "/tokenizer_info", nil), http.StatusOK)
	require.Equal(t, "\n", info["bos_token"])
	require.Equal(t, "\x00", info["eos_token"])
	tokens := decode[api.Tokens](t, g.json("/tokenize", `{"prompt":"añ€","add_special_tokens":false}`), http.StatusOK)
	require.Equal(t, []api.TokenID{97, 195, 177, 226, 130, 172}, tokens.Tokens)
	require.EqualValues(t, 6, tokens.Count)
	require.EqualValues(t, limits.OpenAIPromptTokensMax, tokens.MaxModelLen)
	require.Equal(t, []api.TokenID{}, decode[api.Tokens](t, g.json("/tokenize", `{"prompt":""}`), http.StatusOK).Tokens)
	back := decode[api.Detokenized](t, g.json("/detokenize", `{"model":"small","tokens":[97,195,177,226,130,172]}`), http.StatusOK)
	require.Equal(t, "añ€", back.Prompt)
	require.Equal(t, "\uFFFD\uFFFDa", decode[api.Detokenized](t, g.json("/detokenize", `{"tokens":[195,255,97]}`), http.StatusOK).Prompt)
	require.Empty(t, decode[api.Detokenized](t, g.json("/detokenize", `{"tokens":[]}`), http.StatusOK).Prompt)
	long := asJSON(t, map[string]any{"tokens": ids(numbered(1, limits.OpenAIPromptTokensMax))})
	require.Equal(t, numbered(1, limits.OpenAIPromptTokensMax), decode[api.Detokenized](t, g.json("/detokenize", long), http.StatusOK).Prompt)
}

func TestAModelHasItsIDAndItsName(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	listed := decode[api.ModelList](t, g.do("GET", "/v1/models", nil), http.StatusOK).Data[0]
	require.EqualValues(t, api.ObjectModel, listed.Object)
	for _, name := range []string{listed.ID, listed.Name} {
		require.Equal(t, listed, decode[api.Model](t, g.do("GET", "/v1/models/"+name, nil), http.StatusOK))
		g.completed(fmt.Sprintf(`{"model":%q,"prompt":"x"}`, name))
	}
	p := requireProblem(t, g.do("GET", "/v1/models/gpt-4", nil), api.ProblemModelNotFound)
	require.Equal(t, "model_not_found", p.Error.Code)
	require.Equal(t, "model", *p.Error.Param)
}

// A server that was told to makes a session for a user on first use, of the caller's key; others do
// not look at a user that is no session's id.
func TestUsersHaveSessionsWhereTheServerWasToldSo(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "one"}, keys.Key{Name: "two"}, keys.Key{Name: "admin", Admin: true})
	session := func(g *rig, key, user string) string {
		g.key = ring.token[key]
		resp := g.json("/v1/completions", fmt.Sprintf(`{"model":"small","prompt":"x","max_tokens":1,"user":%q}`, user))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Header.Get("X-Session-ID")
	}
	g := newOpenAIRig(t, Options{Keys: ring.Ring, UserSessions: true})
	ann := session(g, "one", "ann")
	require.NotEmpty(t, ann)
	require.Equal(t, ann, session(g, "one", "ann"))
	require.Equal(t, ann, session(g, "one", ann), "by its id")
	require.Empty(t, session(g, "one", ""))
	others := []string{ann, session(g, "one", "bob"), session(g, "two", "ann"), session(g, "admin", "ann"), session(g, "two", ann)}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(others))), len(others), "users of another key are others")
	g.key = ring.token["one"]
	info := decode[api.Session](t, g.do("GET", "/v1/sessions/"+ann, nil), http.StatusOK)
	require.Equal(t, api.Labels{"user": "ann"}, *info.Labels)
	require.Equal(t, http.StatusNoContent, g.do("DELETE", "/v1/sessions/"+ann, nil).StatusCode)
	require.NotEqual(t, ann, session(g, "one", "ann"), "a session that was deleted is made anew")

	plain := newOpenAIRig(t, Options{Keys: ring.Ring})
	require.Empty(t, session(plain, "one", "ann"))
	require.Empty(t, decode[api.SessionList](t, plain.do("GET", "/v1/sessions", nil), http.StatusOK).Sessions)
}

// The sessions of users are found by their labels: also by a server that was started again.
func TestSessionsOfUsersOutliveTheServer(t *testing.T) {
	fake := newFake()
	serve := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		g := newRigOn(t, fake, Options{UserSessions: true}, l, &http.Transport{})
		return g.json("/v1/completions", `{"model":"fake","prompt":"x","user":"ann"}`).Header.Get("X-Session-ID")
	}
	require.Equal(t, serve(), serve())
	require.Len(t, fake.sessions, 1)
}

// Whatever is refused, and wherever: the problem has OpenAI's envelope.
func TestEveryProblemOfTheseRoutesHasTheEnvelope(t *testing.T) {
	const body = `{"model":"fake","prompt":"x"}`
	ring := newTestKeys(t, keys.Key{Name: "k"}, keys.Key{Name: "small", Limits: keys.Limits{BytesPerSecond: 1024, Requests: 1}})
	type reach func(g *rig) *http.Response
	post := func(more ...string) reach {
		return func(g *rig) *http.Response { return g.json("/v1/completions", body, more...) }
	}
	failing := func(err error) reach {
		return func(g *rig) *http.Response {
			g.fake.fail = err
			return g.json("/v1/completions", body)
		}
	}
	for name, c := range map[string]struct {
		status           int
		kind, code, parm string
		do               reach
	}{
		"no key":  {401, "invalid_request_error", "invalid_api_key", "Authorization", func(g *rig) *http.Response { g.key = ""; return g.json("/v1/completions", body) }},
		"bad key": {401, "invalid_request_error", "invalid_api_key", "", post("Authorization", "Bearer "+wrong(ring.token["k"]))},
		"models": {401, "invalid_request_error", "invalid_api_key", "", func(g *rig) *http.Response {
			return g.do("GET", "/v1/models", nil, "Authorization", "Bearer "+wrong(ring.token["k"]))
		}},
		"no session": {404, "invalid_request_error", "session_not_found", "X-Session-ID", post("X-Session-ID", "none")},
		"no model":   {404, "invalid_request_error", "model_not_found", "model", func(g *rig) *http.Response { return g.json("/v1/completions", `{"model":"gpt","prompt":"x"}`) }},
		"tokenize":   {404, "invalid_request_error", "model_not_found", "model", func(g *rig) *http.Response { return g.json("/tokenize", `{"model":"gpt","prompt":"x"}`) }},
		"method":     {405, "invalid_request_error", "method_not_allowed", "", func(g *rig) *http.Response { return g.do("GET", "/v1/completions", nil) }},
		"accept":     {406, "invalid_request_error", "not_acceptable", "Accept", post("Accept", "text/html")},
		"busy":       {409, "invalid_request_error", "session_busy", "", failing(session.ErrBusy)},
		"too large": {413, "invalid_request_error", "body_too_large", "Content-Length", func(g *rig) *http.Response {
			return g.json("/v1/completions", strings.Repeat(" ", limits.JSONBodyBytesMax+1))
		}},
		"type": {415, "invalid_request_error", "unsupported_media_type", "Content-Type", post("Content-Type", "text/plain")},
		"rate": {429, "rate_limit_error", "rate_limit_exceeded", "", func(g *rig) *http.Response {
			g.key = ring.token["small"]
			g.completed(`{"model":"fake","prompt":"x","max_tokens":60000}`)
			return g.json("/v1/completions", body)
		}},
		"internal":   {500, "server_error", "internal", "", failing(io.ErrShortBuffer)},
		"overloaded": {503, "server_error", "overloaded", "", failing(session.ErrOverloaded)},
		"draining":   {503, "server_error", "draining", "", func(g *rig) *http.Response { g.fake.draining = true; return g.json("/v1/completions", body) }},
		"store":      {503, "server_error", "store_failed", "", failing(session.ErrStore)},
		"disk":       {507, "server_error", "no_space", "", failing(session.ErrNoSpace)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{Keys: ring.Ring})
			g.key = ring.token["k"]
			resp := c.do(g)
			p := decode[api.Problem](t, resp, c.status)
			require.Equal(t, c.status, p.Status)
			require.NotNil(t, p.Error)
			require.NotEmpty(t, p.Error.Message)
			require.Equal(t, []string{c.kind, c.code}, []string{string(p.Error.Type), p.Error.Code})
			if c.parm != "" {
				require.Equal(t, c.parm, *p.Error.Param)
			}
			if c.status == 429 || c.status == 503 {
				require.NotEmpty(t, resp.Header.Get("Retry-After"))
			}
		})
	}
	g := newRig(t, Options{})
	require.Nil(t, requireProblem(t, g.do("GET", "/v1/sessions/none", nil), api.ProblemSessionNotFound).Error, "other routes have none")
}

// An error after the first event is the last event.
func TestAnErrorInTheStreamHasTheEnvelope(t *testing.T) {
	g := newRig(t, Options{})
	g.fake.fail = session.ErrDraining
	raw, err := io.ReadAll(g.json("/v1/completions", `{"model":"fake","prompt":"x","stream":true}`).Body)
	require.NoError(t, err)
	events := strings.Split(strings.TrimSpace(string(raw)), "\n\n")
	require.Len(t, events, 2)
	require.JSONEq(t, `{"error":{"message":"The server is shutting down; what was reported before stays","type":"server_error","param":null,"code":"draining"}}`,
		strings.TrimPrefix(events[1], "data: "))
}

// Each of these is refused with 400 and says which field is wrong; none changes anything.
func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	g := newOpenAIRig(t, Options{UserSessions: true})
	path := g.create("{}")
	g.text(path+"/score", numbered(1, 100))
	before := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	refused := 0
	refuse := func(route, body, param string) {
		t.Helper()
		refused++
		resp := g.json(route, body, "X-Session-ID", before.ID)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%.200s", body)
		p := decode[api.Problem](t, resp, http.StatusBadRequest)
		require.Equal(t, http.StatusBadRequest, p.Status)
		require.NotNil(t, p.Error, body)
		require.Equal(t, api.OpenAIInvalidRequest, p.Error.Type)
		require.NotEmpty(t, p.Error.Message)
		short := body[:min(len(body), 200)]
		if param == "" {
			require.Nil(t, p.Error.Param, short)
			require.Equal(t, "malformed_body", p.Error.Code, short)
			return
		}
		require.NotNil(t, p.Error.Param, "%s: %s", short, p.Error.Message)
		require.Equal(t, param, strings.FieldsFunc(*p.Error.Param, func(r rune) bool { return r == '[' || r == '.' })[0], short)
		require.Equal(t, "invalid_field", p.Error.Code, short)
		require.Contains(t, p.Error.Message, "expected", short)
	}
	long := strings.Repeat("x", limits.OpenAIPromptTokensMax)
	many := func(one string, n int) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	notNumbers := []string{`"1"`, `true`, `[]`, `{}`, `[1]`, `"x"`, `{"a":1}`}
	notIntegers := append([]string{`1.5`, `-1`, `1e9`, `1e2`, `99999999999999999999`}, notNumbers...)
	notBools := []string{`0`, `1`, `"true"`, `[]`, `{}`}
	for param, values := range map[string][]string{
		"model": {`null`, `1`, `""`, `[]`, `{}`, `true`, `"` + strings.Repeat("m", limits.OpenAIModelCharsMax+1) + `"`},
		"prompt": {
			`null`, `1`, `true`, `{}`, `[]`, `[[]]`, `[null]`, `["a",1]`, `[1,"a"]`, `[[1],"a"]`, `[[1],[]]`, `[1,[2]]`, `[[[1]]]`, `[-1]`, `[256]`, `[1.5]`, `["a",null]`,
			`[[1],[256]]`, `[1e1]`, `[true]`, `[{}]`, `"` + long + `x"`, `["` + long + `","x"]`, `"` + strings.Repeat("ñ", len(long)/2+1) + `"`,
			many(`"x"`, limits.OpenAIPromptsMax+1), many(`[1]`, limits.OpenAIPromptsMax+1), many(`1`, len(long)+1),
			`[` + many(`1`, len(long)/2+1) + `,` + many(`1`, len(long)/2) + `]`, many(`1`, 2*len(long)), many(`{}`, 2*len(long)),
		},
		"max_tokens":        append([]string{fmt.Sprint(limits.OpenAISampledTokensMax + 1)}, notIntegers...),
		"n":                 append([]string{`0`, fmt.Sprint(limits.OpenAITextsMax + 1)}, notIntegers...),
		"best_of":           append([]string{`0`, `2`}, notIntegers...),
		"logprobs":          append([]string{fmt.Sprint(limits.OpenAILogprobsMax + 1)}, notIntegers...),
		"seed":              append([]string{`9007199254740992`}, slices.DeleteFunc(slices.Clone(notIntegers), func(s string) bool { return s == "1e9" || s == "1e2" })...),
		"temperature":       append([]string{`-0.1`, `2.1`, `100`, `1e400`}, notNumbers...),
		"top_p":             append([]string{`0`, `-1`, `1.01`}, notNumbers...),
		"stop":              {`1`, `true`, `{}`, `""`, `[]`, `[""]`, `[1]`, `[null]`, `["a","b","c","d","e"]`, `["` + strings.Repeat("x", limits.StopCharsMax+1) + `"]`, `[["a"]]`},
		"stream":            notBools,
		"echo":              notBools,
		"user":              {`1`, `true`, `[]`, `{}`, `"` + strings.Repeat("u", limits.OpenAIUserCharsMax+1) + `"`},
		"suffix":            {`"x"`, `1`, `[]`, `{}`, `true`},
		"presence_penalty":  append([]string{`0.1`, `-2`, `1`}, notNumbers...),
		"frequency_penalty": append([]string{`0.1`, `-2`, `1`}, notNumbers...),
		"logit_bias":        {`{"50256":-100}`, `[]`, `1`, `"x"`},
		"stream_options":    {`{}`, `{"include_usage":true}`, `1`, `[]`, `"x"`, `{"include_usage":1}`, `{"x":1}`, `{"include_obfuscation":true}`},
		"messages":          {`[{"role":"user","content":"x"}]`},
		"top_k":             {`5`},
		"functions":         {`null`},
	} {
		for _, value := range values {
			fields := map[string]string{"model": `"small"`, "prompt": `"x"`, param: value}
			var body []string
			for name, value := range fields {
				body = append(body, fmt.Sprintf("%q:%s", name, value))
			}
			refuse("/v1/completions", "{"+strings.Join(body, ",")+"}", param)
		}
	}
	refuse("/v1/completions", `{"model":"small"}`, "prompt")
	refuse("/v1/completions", `{"prompt":"x"}`, "model")
	refuse("/v1/completions", `{"model":"small","prompt":["a","b"],"n":65}`, "n")
	refuse("/v1/completions", `{"model":"small","prompt":["a","b"],"max_tokens":32769}`, "max_tokens")
	refuse("/v1/completions", `{"model":"small","prompt":"x","prompt":"y"}`, "prompt")
	refuse("/v1/completions", `{"model":"small","prompt":"x","n":2,"best_of":3}`, "best_of")
	refuse("/v1/completions", `{"model":"small","prompt":"x","max_tokens":65536,"logprobs":20}`, "logprobs")
	refuse("/v1/completions", `{"model":"small","prompt":"`+long+`","n":128,"max_tokens":0,"echo":true}`, "n")
	for _, body := range []string{``, ` `, `{`, `x`, `{"model":"small","prompt":"x"`, `{"model":"small","prompt":"x"}{}`, `{"model":"small",}`, "{\"model\":\"small\",\"prompt\":\"\xff\"}", `{"model":"small","prompt":"\ud83d"}`, `{'model':'small'}`} {
		refuse("/v1/completions", body, "")
	}
	for _, body := range []string{`[]`, `"x"`, `1`, `null`, `true`} {
		refuse("/v1/completions", body, "body")
	}
	for _, value := range []string{`null`, `1`, `[]`, `{}`, `["x"]`} {
		refuse("/tokenize", fmt.Sprintf(`{"prompt":%s}`, value), "prompt")
	}
	refuse("/tokenize", `{"prompt":"`+strings.Repeat("x", limits.TokenizeCharsMax+1)+`"}`, "prompt")
	refuse("/tokenize", `{}`, "prompt")
	refuse("/tokenize", `{"prompt":"x","messages":[]}`, "messages")
	for _, value := range []string{`null`, `1`, `"x"`, `{}`, `["x"]`, `[256]`, `[-1]`, `[1.5]`, `[[1]]`, many("1", limits.OpenAIPromptTokensMax+1)} {
		refuse("/detokenize", fmt.Sprintf(`{"tokens":%s}`, value), "tokens")
	}
	refuse("/detokenize", `{}`, "tokens")
	require.GreaterOrEqual(t, refused, 200)
	require.Equal(t, before, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK), "not even its last use")
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK).Sessions, 1)
}

// The largest prompt is scored, and the largest batch, as texts and as tokens.
func TestTheLargestRequestsAreAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	g := newOpenAIRig(t, Options{})
	text := numbered(1, limits.OpenAIPromptTokensMax)
	whole := logProbsOf(t, g.completed(asJSON(t, map[string]any{"model": "small", "prompt": ids(text), "max_tokens": 0, "echo": true, "logprobs": 1})).Choices[0])
	require.Len(t, whole.Tokens, len(text))
	require.Equal(t, len(text)-1, whole.TextOffset[len(text)-1])
	var batch [][]int
	for prompt := range slices.Chunk(ids(text), len(text)/limits.OpenAIPromptsMax) {
		batch = append(batch, prompt)
	}
	answer := g.completed(asJSON(t, map[string]any{"model": "small", "prompt": batch, "max_tokens": 1, "echo": true, "logprobs": 1, "temperature": 0}))
	require.Len(t, answer.Choices, limits.OpenAITextsMax)
	require.EqualValues(t, len(text), answer.Usage.PromptTokens)
	for i, c := range answer.Choices {
		require.True(t, utf8.ValidString(c.Text))
		require.Len(t, logProbsOf(t, c).Tokens, len(batch[i])+1)
	}
}

// A client that leaves ends the work for it.
func TestALeavingClientEndsItsCompletion(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		body := fmt.Sprintf(`{"model":"small","prompt":"x","max_tokens":65536,"stream":%t}`, stream)
		r, err := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contract.MediaJSON)
		time.AfterFunc(300*time.Millisecond, cancel)
		resp, err := g.plain.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	begun := time.Now()
	g.completed(`{"model":"small","prompt":"x","max_tokens":1}`)
	drained, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, g.server.Drain(drained), "nobody is left at work")
	require.Less(t, time.Since(begun), 5*time.Second)
}

// The memory that reading a body of many tokens takes, garbage and all, is hardly more than what the
// server takes for it beforehand.
func TestABodyOfManyTokensTakesTheMemoryThatIsTakenForIt(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	many := "[" + strings.Repeat("1,", limits.OpenAIPromptTokensMax-1) + "1]"
	for path, body := range map[string]string{
		"/detokenize":     `{"tokens":` + many + `}`,
		"/v1/completions": `{"model":"fake","max_tokens":0,"prompt":` + many + `}`,
	} {
		r := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", contract.MediaJSON)
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.router.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		need := limits.JSONReadFactor*len(body) + limits.JSONManyTokenBytes*limits.OpenAIPromptTokensMax
		t.Logf("%s: %d bytes, %d were taken", path, after.TotalAlloc-before.TotalAlloc, need)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(need*5/4))
	}
	require.NoError(t, s.Drain(t.Context()))
}
