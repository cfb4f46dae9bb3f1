package codec

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeBatch decodes a request for a completion in OpenAI's form.
func DecodeBatch(
	m session.ModelInfo, r api.OpenAICompletionRequest,
) (session.BatchRequest, error) {
	prompts, err := decodePrompts(m, r.Prompt)
	request := session.BatchRequest{
		Model:       m.ID,
		Prompts:     prompts,
		N:           valueOr(r.N, 1),
		MaxTokens:   valueOr(r.MaxTokens, limits.OpenAITokensDefault),
		Temperature: r.Temperature,
		TopP:        r.TopP,
		TopK:        max(0, Value(r.TopK)),
		MinP:        Value(r.MinP),
		Dry:         r.Dry,
		Seed:        r.Seed,
		Echo:        Value(r.Echo),
		LogProbs:    r.Logprobs != nil,
		Top:         Value(r.Logprobs),
	}
	if r.Stop != nil {
		request.Stop = stopStrings(r.Stop.AsStopString, r.Stop.AsOpenAICompletionRequestStop1)
	}
	text, list := r.Prompt.AsOpenAICompletionRequestPrompt0()
	if r.Suffix != nil {
		request.Suffix = []byte(*r.Suffix)
	} else if list == nil && !request.Echo {
		if prefix, suffix, marked := unmarked(text); marked {
			prompts[0], request.Suffix = []byte(prefix), []byte(suffix)
		}
	}
	if r.BestOf != nil && *r.BestOf != request.N {
		return request, problem.Field(api.ProblemInvalidField, "best_of", strconv.Itoa(*r.BestOf),
			fmt.Sprintf("%d, the value of n: the server returns every text", request.N))
	}
	if r.StreamOptions != nil && !Value(r.Stream) {
		return request, problem.Field(api.ProblemInvalidField, "stream_options",
			"stream_options without stream=true", "no stream_options, or stream=true")
	}
	return request, err
}

// IncludesUsage reports whether a streamed answer ends with the token usage.
func IncludesUsage(r api.OpenAICompletionRequest) bool {
	return r.StreamOptions != nil && Value(r.StreamOptions.IncludeUsage)
}

// decodePrompts decodes a prompt in any of its four forms: text, texts, tokens, or lists of tokens.
// It can fail after validation, because encoding/json rejects an integer written as 1e2.
func decodePrompts(
	m session.ModelInfo, p api.OpenAICompletionRequest_Prompt,
) (all [][]byte, err error) {
	if text, err := p.AsOpenAICompletionRequestPrompt0(); err == nil {
		return [][]byte{[]byte(text)}, nil
	}
	if texts, err := p.AsOpenAICompletionRequestPrompt1(); err == nil {
		for _, text := range texts {
			all = append(all, []byte(text))
		}
		return all, nil
	}
	if ids, err := p.AsTokenList(); err == nil {
		text, err := Detokenized(m, "prompt", ids)
		return [][]byte{text}, err
	}
	lists, err := p.AsOpenAICompletionRequestPrompt3()
	if err != nil {
		return nil, problem.Field(api.ProblemInvalidField, "prompt", "a token id with an exponent",
			"token ids without an exponent")
	}
	for i, ids := range lists {
		text, err := Detokenized(m, fmt.Sprintf("prompt[%d]", i), ids)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// Detokenized returns the text of the tokens in a request's field. It returns a problem document if
// a token is not in the model's vocabulary.
func Detokenized(m session.ModelInfo, field string, ids []api.TokenID) ([]byte, error) {
	text, before := make([]byte, 0, len(ids)), m.Start
	for i, id := range ids {
		if int(id) >= m.Vocab {
			return nil, problem.Field(api.ProblemInvalidField, fmt.Sprintf("%s[%d]", field, i),
				strconv.Itoa(int(id)), fmt.Sprintf("an integer from 0 to %d", m.Vocab-1))
		}
		text = m.Spell(text, before, id)
		before = id
	}
	return text, nil
}

// WriteTokens writes the tokens of a text as the JSON of an api.Tokens. It writes them one by one,
// because the whole JSON would need many times the memory of the text.
func WriteTokens(w io.Writer, m session.ModelInfo, text string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `{"count":%d,"max_model_len":%d,"tokens":[`,
		m.CountTokens([]byte(text)), limits.OpenAIPromptTokensMax)
	first := true
	for id := range m.Tokens([]byte(text)) {
		if !first {
			_ = b.WriteByte(',') // Flush returns the error of an earlier write
		}
		first = false
		_, _ = b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(id), 10))
	}
	_, _ = b.WriteString("]}\n")
	return b.Flush()
}

// EncodeText encodes bytes as a string in OpenAI's way: each byte outside a character becomes one
// U+FFFD. With one U+FFFD for several bytes, the result would depend on how a text is split into
// pieces.
func EncodeText(text []byte) string { return string([]rune(string(text))) }

// endOfText is a placeholder for clients that require an end-of-text token. It is a byte that texts
// do not contain.
const endOfText = "\x00"

// EncodeTokenizer encodes a model's tokenizer.
func EncodeTokenizer(m session.ModelInfo) api.TokenizerInfo {
	return api.TokenizerInfo{
		TokenizerClass: m.Tokenizer,
		VocabSize:      int32(m.Vocab),
		BosToken:       string(m.Spell(nil, m.Start, m.Start)),
		EosToken:       endOfText,
		ModelMaxLength: limits.OpenAIPromptTokensMax,
	}
}
