package server

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/server/contract"
)

// isSpelt checks the spacing of sampled words: one space between words, none around line ends, and
// no unknown word.
func isSpelt(t *testing.T, text string) {
	t.Helper()
	require.NotContains(t, text, "  ")
	require.NotContains(t, text, " \n")
	require.NotContains(t, text, "\n ")
	require.NotContains(t, text, "<")
}

// The prompt's last word counts as complete. The completion begins with a new word, after one
// space.
func TestCompletionOfWordsContinuesWithNextWord(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"chunk":16}}`)
	g.score(path, strings.Repeat("the cat sat on the mat .\n", 5))
	complete := func(prompt string) api.Completion {
		return decode[api.Completion](t, g.json(path+"/complete", asJSON(t, map[string]any{
			"prompt": prompt, "max_tokens": 30, "seed": 1, "logprobs": true, "top_logprobs": 2,
		})), http.StatusOK)
	}
	word, space, line := complete("the cat"), complete("the cat "), complete("the cat\n")
	require.Equal(t, word.Text, " "+space.Text, "the same tokens")
	require.Equal(t, word.Logprobs, space.Logprobs)
	isSpelt(t, "the cat"+word.Text)
	isSpelt(t, "the cat\n"+line.Text)
	require.NotEqual(t, ' ', rune(line.Text[0]))
	for _, c := range []api.Completion{word, space, line} {
		require.EqualValues(t, 30, c.Usage.CompletionTokens)
		require.Len(t, c.Logprobs, 30)
		require.Equal(t, c.Text, strings.Join(c.Tokens, ""))
		for i, top := range c.TopLogprobs {
			require.Len(t, top, 2)
			require.NotNil(t, top[0].Text)
			if top[0].Logprob == c.Logprobs[i] {
				require.Equal(t, c.Tokens[i], *top[0].Text)
			}
		}
	}
	require.EqualValues(t, 2, word.Usage.PromptTokens)
	require.EqualValues(t, 3, line.Usage.PromptTokens)
}

func TestCompletionOfWordsIsStreamed(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3}`)
	body := map[string]any{
		"prompt": "the", "max_tokens": 60, "seed": 5, "logprobs": true, "stop": "mat s",
	}
	whole := decode[api.Completion](t, g.json(path+"/complete", asJSON(t, body)), http.StatusOK)
	body["stream"] = true
	var text string
	var tokens []string
	events := readEvents(g.json(path+"/complete", asJSON(t, body))).all(t)
	for _, e := range events[:len(events)-1] {
		p := as[api.PieceEvent](t, e)
		text, tokens = text+p.Text, append(tokens, p.Tokens...)
		require.Len(t, p.Logprobs, len(p.Tokens))
	}
	done := as[api.DoneEvent](t, events[len(events)-1])
	require.Equal(t, whole.Text, text)
	require.Equal(t, whole.Tokens, tokens)
	require.Equal(t, whole.Usage, done.Usage)
	require.True(t, strings.HasPrefix(text, strings.Join(tokens, "")))
}

// A session with a committed completion equals a session that was fed the printed text.
func TestCompletionOfWordsIsCommitted(t *testing.T) {
	g := newWordsRig(t)
	const made = `{"seed":3,"settings":{"chunk":16}}`
	const before = "the cat sat on the ma" // ends within a word
	for _, prompt := range []string{"", "t", "t and\nthe dog ", "t ran\n"} {
		for _, commit := range []string{"prompt", "all"} {
			path, twin := g.create(made), g.create(made)
			g.score(path, before)
			c := decode[api.Completion](t, g.json(path+"/complete", asJSON(t, map[string]any{
				"prompt": prompt, "max_tokens": 40, "seed": 1, "commit": commit,
			})), http.StatusOK)
			text := before + prompt
			if commit == "all" {
				text += c.Text
			}
			g.score(twin, text)
			require.EqualValues(t, len(text), c.Offset)
			require.Equal(t, g.state(t, twin), g.state(t, path), "%q %s", prompt, commit)
		}
	}
	path := g.create(made)
	g.score(path, before)
	state := g.state(t, path)
	g.json(path+"/complete", `{"prompt":"t and","max_tokens":40}`)
	require.Equal(t, state, g.state(t, path), "nothing was committed")
}

func TestWordsInOpenAIsForm(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"chunk":16}}`)
	g.score(path, "the cat sat on the mat .\n")
	id := strings.TrimPrefix(path, "/v1/sessions/")
	const prompt = "the  cat xyzzy\nA dog "
	body := map[string]any{
		"model": wordsName(t), "prompt": prompt, "max_tokens": 7, "echo": true, "logprobs": 2,
		"seed": 1,
	}
	said := g.completed(asJSON(t, body), "X-Session-ID", id)
	choice, block := said.Choices[0], logProbsOf(t, said.Choices[0])
	require.Len(t, block.Tokens, 13)
	require.Equal(t, []string{"the", "  cat", " xyzzy", "\n", "A", " dog"}, block.Tokens[:6])
	require.Equal(t, choice.Text, strings.Join(block.Tokens, ""))
	isSpelt(t, choice.Text[len(prompt):])
	require.Equal(t, []int64{6, 7, 13},
		[]int64{said.Usage.PromptTokens, said.Usage.CompletionTokens, said.Usage.TotalTokens})
	require.Nil(t, block.TokenLogProbs[0])
	require.Nil(t, block.TopLogProbs[0])
	at := 0
	for i, token := range block.Tokens {
		require.Equal(t, at, block.TextOffset[i])
		at += utf8.RuneCountInString(token)
		if i > 0 {
			require.Equal(t, *block.TokenLogProbs[i], block.TopLogProbs[i][token],
				"has itself beside it")
			require.LessOrEqual(t, len(block.TopLogProbs[i]), 3)
		}
	}
	fed, _ := g.chunksOf(path, prompt)
	var scores []float64
	for _, c := range fed {
		scores = append(scores, c.Logprobs...)
	}
	require.Len(t, scores, 6)
	for i := 1; i < 6; i++ {
		require.Equal(t, scores[i], *block.TokenLogProbs[i], block.Tokens[i])
	}
}

func TestPromptsOfWordsAsTokens(t *testing.T) {
	g := newWordsRig(t)
	name := wordsName(t)
	const text = "the cat sat\nThe dog"
	tokens := decode[api.Tokens](t,
		g.json("/tokenize", asJSON(t, map[string]any{"prompt": text})), http.StatusOK)
	require.Len(t, tokens.Tokens, 6, "the last word is complete")
	require.EqualValues(t, 6, tokens.Count)
	back := decode[api.Detokenized](t,
		g.json("/detokenize", asJSON(t, map[string]any{"tokens": tokens.Tokens})), http.StatusOK)
	require.Equal(t, text, back.Prompt)
	body := map[string]any{
		"model": name, "prompt": text, "max_tokens": 5, "seed": 1, "echo": true, "logprobs": 1,
	}
	asText := g.completed(asJSON(t, body))
	named := logProbsOf(t, asText.Choices[0]).Tokens
	require.Equal(t, []string{"the", " cat", " sat", "\n", "The", " dog"}, named[:6])
	require.Equal(t, asText.Choices[0].Text, strings.Join(named, ""))
	body["prompt"] = [][]api.TokenID{tokens.Tokens}
	asTokens := g.completed(asJSON(t, body))
	require.Equal(t, asText.Choices, asTokens.Choices)
	require.Equal(t, asText.Usage, asTokens.Usage)

	body["stream"] = true
	streamedText := ""
	for _, e := range streamed(t, g.json("/v1/completions", asJSON(t, body))) {
		streamedText += e.Choices[0].Text
	}
	require.Equal(t, asText.Choices[0].Text, streamedText)

	vocab := wordsVocab(t)
	for _, prompt := range []any{[]int{1, vocab}, [][]int{{1}, {2, vocab}}} {
		refused := decode[api.Problem](t, g.json("/v1/completions",
			asJSON(t, map[string]any{"model": name, "prompt": prompt})), http.StatusBadRequest)
		require.Equal(t, api.ProblemInvalidField, refused.Type)
		require.Contains(t, *refused.Field, "prompt[1]")
	}
	refused := decode[api.Problem](t,
		g.json("/detokenize", asJSON(t, map[string]any{"tokens": []int{vocab}})),
		http.StatusBadRequest)
	require.Equal(t, "tokens[0]", *refused.Field)
	info := decode[api.TokenizerInfo](t, g.do("GET", "/tokenizer_info", nil), http.StatusOK)
	require.Equal(t, api.TokenizerInfo{
		TokenizerClass: "words", VocabSize: int32(vocab), BosToken: "\n", EosToken: "\x00",
		ModelMaxLength: info.ModelMaxLength,
	}, info)
}

func TestLongTextsOfWordsAreTokenized(t *testing.T) {
	g := newWordsRig(t)
	text := strings.Repeat("the cat\n", 50_000)
	tokens := decode[api.Tokens](t,
		g.json("/tokenize", asJSON(t, map[string]any{"prompt": text})), http.StatusOK)
	require.EqualValues(t, 150_000, tokens.Count)
	require.Len(t, tokens.Tokens, 150_000)
	require.Equal(t, tokens.Tokens[:3], tokens.Tokens[149_997:])
}

func TestSessionOfWordsIsExportedInMidWord(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"chunk":16}}`)
	g.score(path, prose)
	file := g.export(path)
	resp := g.do("POST", "/v1/sessions/import?name=back", bytes.NewReader(file),
		"Content-Type", contract.MediaTar)
	back := decode[api.Session](t, resp, http.StatusCreated)
	require.Equal(t, g.get(path).Totals, back.Totals)
	require.Equal(t, g.get(path).PendingBytes, back.PendingBytes)
	fork := decode[api.Session](t, g.json(path+"/fork", `{"at_offset":6}`), http.StatusCreated)
	require.EqualValues(t, 6, fork.Offset)
	const copied = "/v1/sessions/back"
	for range 2 {
		require.Equal(t, g.score(path, " fast\n").Bits, g.score(copied, " fast\n").Bits)
	}
	require.Equal(t, g.state(t, path), g.state(t, "/v1/sessions/back"))
	_, err := io.Copy(io.Discard, g.do("GET", "/v1/sessions/"+fork.ID, nil).Body)
	require.NoError(t, err)
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	require.Equal(t, m.ID(), g.get(path).Model)
}
