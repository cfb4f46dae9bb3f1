package server

import (
	"fmt"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// staticLogProbs returns the log-probabilities of a text in a new session, as the score route
// reports them. The session has the method static with a companion.
func staticLogProbs(t *testing.T, g *rig, text string) (all []float64) {
	t.Helper()
	path := g.create(`{"settings":{"method":"static","companion":true}}`)
	for _, e := range readEvents(g.text(path+"/score?logprobs=true", text, "Accept",
		contract.MediaNDJSON)).all(t) {
		all = append(all, as[api.ChunkEvent](t, e).Logprobs...)
	}
	require.Len(t, all, len(text))
	return all
}

// The test sends the requests of the local-completions model of lm-evaluation-harness, and computes
// its results. The log-probability of a continuation is the sum of token_logprobs[ctxlen:-1]. A
// continuation is greedy if each token has the largest log-probability in its top_logprobs entry.
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
		return map[string]any{
			"model":       "small",
			"prompt":      prompt,
			"temperature": 0,
			"max_tokens":  1,
			"logprobs":    1,
			"seed":        1234,
			"echo":        true,
		}
	}
	answers := [][]api.OpenAIChoice{}
	for _, prompt := range []any{tokens, texts} {
		answers = append(answers, g.completed(asJSON(t, payload(prompt))).Choices)
	}
	var one []api.OpenAIChoice
	// a single prompt may be a string, a list of one string, or token ids
	for _, text := range texts {
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
			require.Equal(
				t,
				*logProb,
				top[block.Tokens[ctxlen+k]],
				"the token is in its dictionary",
			)
			greedy = greedy && *logProb == greatest
		}
		// Both values are sums of the same float32 numbers, added in a different order.
		require.InDelta(t, bits, -sum/math.Ln2, 1e-4)
		require.Equal(t, isGreedy(t, g, pairs[i].context, pairs[i].continuation), greedy)
	}

	// A text that the model has sampled at temperature 0 must be recognized as greedy.
	said := g.completed(
		`{"model":"small","prompt":"GET /","max_tokens":12,"temperature":0,` +
			`"logprobs":0}`).Choices[0]
	var own []int
	for _, name := range logProbsOf(t, said).Tokens {
		own = append(own, idOf(t, name))
	}
	require.True(t, isGreedy(t, g, "GET /", string(bytesOf(own))))
	again := logProbsOf(
		t,
		g.completed(asJSON(t, payload(append(ids("GET /"), own...)))).Choices[0],
	)
	for k := len("GET /"); k < len(again.Tokens)-1; k++ {
		require.Len(t, again.TopLogProbs[k], 1, "the likeliest token is the token")
	}
}

func isGreedy(t *testing.T, g *rig, context, continuation string) bool {
	t.Helper()
	body := asJSON(
		t,
		map[string]any{
			"model":       "small",
			"prompt":      context,
			"temperature": 0,
			"max_tokens":  len(continuation),
			"logprobs":    0,
		},
	)
	var said []int
	for _, name := range logProbsOf(t, g.completed(body).Choices[0]).Tokens {
		said = append(said, idOf(t, name))
	}
	return string(bytesOf(said)) == continuation
}

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

func TestTokenizerForHarnesses(t *testing.T) {
	g := newOpenAIRig(t, Options{})
	info := decode[map[string]any](t, g.do("GET", "/tokenizer_info", nil), http.StatusOK)
	require.Equal(t, "\n", info["bos_token"])
	require.Equal(t, "\x00", info["eos_token"])
	tokens := decode[api.Tokens](
		t,
		g.json("/tokenize", `{"prompt":"añ€","add_special_tokens":false}`),
		http.StatusOK,
	)
	require.Equal(t, []api.TokenID{97, 195, 177, 226, 130, 172}, tokens.Tokens)
	require.EqualValues(t, 6, tokens.Count)
	require.EqualValues(t, limits.OpenAIPromptTokensMax, tokens.MaxModelLen)
	require.Equal(
		t,
		[]api.TokenID{},
		decode[api.Tokens](t, g.json("/tokenize", `{"prompt":""}`), http.StatusOK).Tokens,
	)
	back := decode[api.Detokenized](
		t,
		g.json("/detokenize", `{"model":"small","tokens":[97,195,177,226,130,172]}`),
		http.StatusOK,
	)
	require.Equal(t, "añ€", back.Prompt)
	require.Equal(
		t,
		"\uFFFD\uFFFDa",
		decode[api.Detokenized](
			t,
			g.json("/detokenize", `{"tokens":[195,255,97]}`),
			http.StatusOK,
		).Prompt,
	)
	require.Empty(
		t,
		decode[api.Detokenized](
			t,
			g.json("/detokenize", `{"tokens":[]}`),
			http.StatusOK,
		).Prompt,
	)
	long := asJSON(t, map[string]any{"tokens": ids(numbered(1, limits.OpenAIPromptTokensMax))})
	require.Equal(
		t,
		numbered(1, limits.OpenAIPromptTokensMax),
		decode[api.Detokenized](t, g.json("/detokenize", long), http.StatusOK).Prompt,
	)
}
