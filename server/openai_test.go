package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/metrics"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

func newOpenAIRig(t *testing.T, o Options) *rig {
	t.Helper()
	return newOpenAIRigOf(t, o, session.Options{})
}

func newOpenAIRigOf(t *testing.T, o Options, so session.Options) *rig {
	t.Helper()
	m, err := modeltest.Small()
	require.NoError(t, err)
	so.Threads = 2
	sessions, err := session.NewManager(m, so)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newRigOn(t, sessions, o, l, &http.Transport{})
}

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
	require.Equal(
		t,
		[]int{n, n, n},
		[]int{len(block.TokenLogProbs), len(block.TopLogProbs), len(block.TextOffset)},
	)
	return block
}

func (g *rig) completed(body string, headers ...string) api.OpenAICompletion {
	g.t.Helper()
	return decode[api.OpenAICompletion](
		g.t,
		g.json("/v1/completions", body, headers...),
		http.StatusOK,
	)
}

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
			require.True(t, lines.Scan() && lines.Text() == "")
			require.False(t, lines.Scan(), "nothing follows")
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

// A prompt is scored as the continuation of the session's text, and the session is unchanged. If no
// chunk ends within the prompt, the scores are bit-identical to the scores of a fork fed with the
// prompt.
func TestSessionIsContinuedAndLeftAsItWas(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	path := g.create(`{"seed":3}`)
	g.text(path+"/score", numbered(1, 10*modeltest.Chunk+1))
	before := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	prompt := numbered(2, modeltest.Chunk-2)
	body := asJSON(
		t,
		map[string]any{
			"model":       "small",
			"prompt":      prompt,
			"max_tokens":  5,
			"temperature": 0,
			"echo":        true,
			"logprobs":    3,
		},
	)
	for _, name := range []string{"header", "user"} {
		request, header := body, []string{"X-Session-ID", before.ID, "X-Request-Id", "r"}
		if name == "user" {
			request, header = strings.Replace(
				body,
				"{",
				fmt.Sprintf(`{"user":%q,`, before.ID),
				1,
			), header[2:]
		}
		resp := g.json("/v1/completions", request, header...)
		require.Equal(t, before.ID, resp.Header.Get("X-Session-ID"))
		choice := decode[api.OpenAICompletion](t, resp, http.StatusOK).Choices[0]
		block := logProbsOf(t, choice)

		fork := decode[api.Session](t, g.json(path+"/fork", "{}"), http.StatusCreated)
		chunks := readEvents(
			g.text(
				"/v1/sessions/"+fork.ID+"/score?logprobs=true",
				prompt,
				"Accept",
				contract.MediaNDJSON,
			),
		).all(t)
		want := as[api.ChunkEvent](t, chunks[0]).Logprobs
		require.Len(t, want, len(prompt))
		for i := 1; i < len(prompt); i++ {
			require.InDelta(t, want[i], *block.TokenLogProbs[i], 1e-5)
		}
		said := decode[api.Completion](
			t,
			g.json(
				path+"/complete",
				asJSON(t, map[string]any{"prompt": prompt, "max_tokens": 5, "temperature": 0}),
			),
			http.StatusOK,
		)
		require.Equal(t, prompt+said.Text, choice.Text)
	}
	after := decode[api.Session](t, g.do("GET", path, nil), http.StatusOK)
	require.True(t, after.LastUsedAt.After(before.LastUsedAt))
	before.LastUsedAt = after.LastUsedAt
	require.Equal(t, before, after)
	require.NotEqual(
		t,
		g.completed(body).Choices[0].Logprobs,
		g.completed(body, "X-Session-ID", before.ID).Choices[0].Logprobs,
		"the session has learnt",
	)
}

func TestLegacyBlockIsExact(t *testing.T) {
	g := newRig(t, Options{})
	g.fake.max = 1
	answer := g.completed(
		`{"model":"fake","prompt":"añ\"","max_tokens":2,"echo":true,"logprobs":2,"n":2,`+
			`"stop":null,"suffix":null}`,
		"X-Request-Id",
		"a-b",
	)
	require.Equal(t, "cmpl-a-b", answer.ID)
	require.Equal(t, "fake-0", answer.Model)
	require.Equal(t, api.ObjectTextCompletion, answer.Object)
	require.InDelta(t, time.Now().Unix(), answer.Created, 60)
	require.Equal(
		t,
		&api.OpenAIUsage{PromptTokens: 4, CompletionTokens: 4, TotalTokens: 8},
		answer.Usage,
	)
	require.Len(t, answer.Choices, 2)
	for i, c := range answer.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, "añ\"a\uFFFD", c.Text)
		require.Equal(t, api.FinishLength, *c.FinishReason)
		require.JSONEq(t, `{
			"tokens": ["a", "bytes:\\xc3", "bytes:\\xb1", "\"", "a", "bytes:\\xc3"],
			"token_logprobs": [null, -2, -2, -2, -1, -1],
			"top_logprobs": [null, {"bytes:\\xc3": -2}, {"bytes:\\xb1": -2}, {"\"": -2}, {"a": -1},
				{"bytes:\\xc3": -1}],
			"text_offset": [0, 1, 1, 2, 3, 4]
		}`, string(*c.Logprobs))
	}
	raw, err := io.ReadAll(
		g.json(
			"/v1/completions",
			`{"model":"fake-0","prompt":[97,98]}`,
			"X-Request-Id",
			"x",
		).Body,
	)
	require.NoError(t, err)
	require.Regexp(
		t,
		`^\{"id":"cmpl-x","object":"text_completion","created":[0-9]+,"model":"fake-0",`+
			`"choices":\[\{"text":"abababababababab","index":0,"logprobs":null,`+
			`"finish_reason":"length"\}\],`+
			`"usage":\{"prompt_tokens":2,"completion_tokens":16,"total_tokens":18\}\}`,
		string(raw),
	)
	require.Empty(t, g.fake.sessions, "a completion without a session leaves none")

	stopped := g.completed(
		`{"model":"fake","prompt":["abc","xyz"],"max_tokens":9,"stop":["zx","bca"],"logprobs":1}`,
	)
	require.Equal(
		t,
		[]string{"a", "xy"},
		[]string{stopped.Choices[0].Text, stopped.Choices[1].Text},
	)
	require.Equal(t, api.FinishStop, *stopped.Choices[0].FinishReason)
	require.Equal(t, []int{0, 1}, logProbsOf(t, stopped.Choices[1]).TextOffset)
	require.NotNil(
		t,
		logProbsOf(t, stopped.Choices[1]).TokenLogProbs[0],
		"without echo each token has a score",
	)
	require.EqualValues(t, 8, stopped.Usage.CompletionTokens, "those of the stop strings, too")
}

// Some clients send empty lists and empty strings if they want no stop string.
func TestEmptyStopStringsStopNothing(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	body := func(stop string) string {
		return `{"model":"small","prompt":"GET /","seed":5,"max_tokens":20` + stop + `}`
	}
	free := g.completed(body(""), "X-Request-Id", "r")
	many := strings.Repeat(`"no such text",`, limits.StopStringsMax-1)
	for _, stop := range []string{`""`, `[]`, `[""]`, `["",""]`, `[` + many + `""]`, `null`} {
		got := g.completed(body(`,"stop":`+stop), "X-Request-Id", "r")
		require.Equal(t, free.Choices, got.Choices, stop)
	}
}

// The joined events of a stream equal the answer without streaming.
func TestStreamedAnswerIsWholeAnswerInPieces(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	for name, fields := range map[string]string{
		"one text":          `"prompt":"GET /"`,
		"texts and prompts": `"prompt":["GET /ñ","","POST"],"n":2,"logprobs":2`,
		"echo": `"prompt":[[1,195],[177,2,255]],"n":2,"echo":true,"logprobs":3,` +
			`"stop":["a","\n"]`,
		"nothing sampled": `"prompt":"añb","max_tokens":0,"echo":true,"logprobs":0`,
		"nothing at all":  `"prompt":"","max_tokens":0`,
	} {
		t.Run(name, func(t *testing.T) {
			body := func(more string) string {
				return `{"model":"small","seed":5,"user":"nobody's id",` + strings.TrimPrefix(
					fields+more,
					" ",
				) + `}`
			}
			whole := g.completed(body(""), "X-Request-Id", "r")
			events := streamed(
				t,
				g.json(
					"/v1/completions",
					body(`,"stream":true,"stream_options":{"include_usage":true}`),
					"X-Request-Id",
					"r",
				),
			)
			last := events[len(events)-1]
			require.Empty(t, last.Choices)
			require.Equal(t, whole.Usage, last.Usage)
			texts, blocks := make(
				[]api.OpenAIChoice,
				len(whole.Choices),
			), make(
				[]logProbs,
				len(whole.Choices),
			)
			for _, e := range events[:len(events)-1] {
				require.Nil(t, e.Usage)
				require.Len(t, e.Choices, 1)
				require.Equal(t, whole.ID, e.ID)
				require.Equal(t, whole.Model, e.Model)
				c := e.Choices[0]
				require.Nil(t, texts[c.Index].FinishReason, "nothing follows the last piece")
				texts[c.Index] = api.OpenAIChoice{
					Text:         texts[c.Index].Text + c.Text,
					Index:        c.Index,
					FinishReason: c.FinishReason,
				}
				if whole.Choices[0].Logprobs == nil {
					require.Nil(t, c.Logprobs)
					continue
				}
				piece, block := logProbsOf(t, c), &blocks[c.Index]
				block.Tokens, block.TokenLogProbs = append(
					block.Tokens,
					piece.Tokens...), append(
					block.TokenLogProbs,
					piece.TokenLogProbs...)
				block.TopLogProbs, block.TextOffset = append(
					block.TopLogProbs,
					piece.TopLogProbs...), append(
					block.TextOffset,
					piece.TextOffset...)
			}
			for i, c := range whole.Choices {
				want := c
				if c.Logprobs != nil {
					block := logProbsOf(t, c)
					// The offset is the position of the token in the text, in characters.
					for k, at := range block.TextOffset {
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
			require.NotContains(
				t,
				asJSON(t, streamed(t, g.json("/v1/completions", body(`,"stream":true`)))),
				`"usage"`,
			)
		})
	}
}

func TestSameSeedGivesSameTexts(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	texts := func(fields string) (all []string) {
		for _, c := range g.completed(`{"model":"small","max_tokens":30,` + fields + `}`).Choices {
			all = append(all, c.Text)
		}
		return all
	}
	three := texts(`"prompt":["GET","GET"],"n":3,"seed":7`)
	require.Equal(
		t,
		three[:3],
		three[3:],
		"a text does not depend on the prompts beside its own",
	)
	require.Len(
		t,
		slices.Compact(slices.Sorted(slices.Values(three[:3]))),
		3,
		"texts after one prompt differ",
	)
	require.Equal(
		t,
		three[1:2],
		texts(`"prompt":"GET","seed":8`),
		"the seed of the next is one more",
	)
	require.NotEqual(t, texts(`"prompt":"GET"`), texts(`"prompt":"GET"`))
	require.Equal(
		t,
		texts(`"prompt":"GET","temperature":0`),
		texts(`"prompt":"GET","temperature":0,"n":1,"best_of":1,"seed":3`),
	)
}

func TestModelHasItsIDAndItsName(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	listed := decode[api.ModelList](t, g.do("GET", "/v1/models", nil), http.StatusOK).Data[0]
	require.EqualValues(t, api.ObjectModel, listed.Object)
	for _, name := range []string{listed.ID, listed.Name} {
		require.Equal(
			t,
			listed,
			decode[api.Model](t, g.do("GET", "/v1/models/"+name, nil), http.StatusOK),
		)
		g.completed(fmt.Sprintf(`{"model":%q,"prompt":"x"}`, name))
	}
	p := requireProblem(t, g.do("GET", "/v1/models/gpt-4", nil), api.ProblemModelNotFound)
	require.Equal(t, "model_not_found", p.Error.Code)
	require.Equal(t, "model", *p.Error.Param)
}

// If two models have the same name, requests must use their ids.
func TestSharedModelNameIsNoModel(t *testing.T) {
	other, err := modeltest.New(20)
	require.NoError(t, err)
	small, err := modeltest.Small()
	require.NoError(t, err)
	other.Name = small.Name
	from, _, err := model.NewSource(func() (*model.Model, error) { return other, nil })
	require.NoError(t, err)
	g := newRealRig(t, session.Options{Others: []*model.Source{from}}, Options{})
	p := requireProblem(t, g.do("GET", "/v1/models/"+small.Name, nil), api.ProblemModelNotFound)
	require.Equal(t, fmt.Sprintf("%q, a name that 2 models share", small.Name), *p.Found)
	require.Equal(t, small.ID()+" or "+other.ID(), *p.Expected)
	for _, id := range []string{small.ID(), other.ID()} {
		got := decode[api.Model](t, g.do("GET", "/v1/models/"+id, nil), http.StatusOK)
		require.Equal(t, id, got.ID)
	}
}

// The largest allowed prompt and the largest allowed batch are answered, as text and as tokens.
func TestLargestRequestsAreAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	g := newOpenAIRig(t, Options{})
	text := numbered(1, limits.OpenAIPromptTokensMax)
	whole := logProbsOf(
		t,
		g.completed(asJSON(t, map[string]any{"model": "small", "prompt": ids(text), "max_tokens": 0,
			"echo": true, "logprobs": 1})).Choices[0],
	)
	require.Len(t, whole.Tokens, len(text))
	require.Equal(t, len(text)-1, whole.TextOffset[len(text)-1])
	var batch [][]int
	for prompt := range slices.Chunk(ids(text), len(text)/limits.OpenAIPromptsMax) {
		batch = append(batch, prompt)
	}
	answer := g.completed(
		asJSON(
			t,
			map[string]any{
				"model":       "small",
				"prompt":      batch,
				"max_tokens":  1,
				"echo":        true,
				"logprobs":    1,
				"temperature": 0,
			},
		),
	)
	require.Len(t, answer.Choices, limits.OpenAITextsMax)
	require.EqualValues(t, len(text), answer.Usage.PromptTokens)
	for i, c := range answer.Choices {
		require.True(t, utf8.ValidString(c.Text))
		require.Len(t, logProbsOf(t, c).Tokens, len(batch[i])+1)
	}
}

func TestLeavingClientEndsItsCompletion(t *testing.T) {
	for _, stream := range []bool{false, true} {
		told := &completing{
			Metrics: metrics.New(metrics.Options{Models: []string{"small"}}),
			sampled: make(chan struct{}, 1),
		}
		g := newOpenAIRigOf(t, Options{}, session.Options{Observer: told})
		ctx, cancel := context.WithCancel(t.Context())
		body := fmt.Sprintf(`{"model":"small","prompt":"x","max_tokens":65536,"stream":%t}`, stream)
		r, err := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/completions",
			strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contract.MediaJSON)
		go func() {
			<-told.sampled
			cancel()
		}()
		resp, err := g.plain.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
		g.completed(`{"model":"small","prompt":"x","max_tokens":1}`)
		drained, cancelDrain := context.WithTimeout(t.Context(), time.Minute)
		defer cancelDrain()
		require.NoError(t, g.server.Drain(drained), "nobody is left at work")
		require.Equal(t, []int{1}, told.tokens, "the other has come to no end")
	}
}

// completing is an observer that signals when sampling begins. It records the length of each text
// whose sampling was completed.
type completing struct {
	*metrics.Metrics
	sampled chan struct{}

	mu     sync.Mutex
	tokens []int
}

func (c *completing) Phase(_ context.Context, p session.Phase, _, _ time.Time) {
	if p == session.PhaseSample {
		select {
		case c.sampled <- struct{}{}:
		default:
		}
	}
}

func (c *completing) Completed(_ string, tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = append(c.tokens, tokens)
}
