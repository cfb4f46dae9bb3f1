package codec

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// OpenAIAnswer builds the answer to a completion in OpenAI's form from pieces of sampled text.
// Event returns the event of one piece for a streamed answer. Whole returns the complete answer.
type OpenAIAnswer struct {
	head    api.OpenAICompletion
	model   session.ModelInfo
	request session.BatchRequest
	texts   []openAIText
	sampled int64
	offset  *int64
}

// NewOpenAIAnswer makes an empty answer.
func NewOpenAIAnswer(
	id string, model session.ModelInfo, created time.Time, request session.BatchRequest,
) *OpenAIAnswer {
	a := &OpenAIAnswer{
		head: api.OpenAICompletion{
			ID: id, Object: api.ObjectTextCompletion, Created: created.Unix(), Model: model.ID,
			Choices: []api.OpenAIChoice{},
		},
		model:   model,
		request: request,
		texts:   make([]openAIText, len(request.Prompts)*request.N),
	}
	if request.Echo {
		for i := range a.texts {
			a.texts[i].echoed = len(request.Prompts[i/request.N])
		}
	}
	return a
}

// Add adds a piece of a text to the answer.
func (a *OpenAIAnswer) Add(p session.Piece) {
	t := &a.texts[p.Index]
	switch {
	case !a.request.LogProbs:
	case a.model.OfWords():
		t.addWords(&a.model, p)
	default:
		t.addBytes(p)
	}
	t.add(p)
	a.offset = p.Offset
	if p.FinishReason != "" {
		a.sampled += int64(p.Tokens)
	}
}

// Sampled returns the number of bytes of p that were sampled and do not belong to a prompt. Call
// Sampled before Add, which advances the position in the text.
func (a *OpenAIAnswer) Sampled(p session.Piece) int { return a.texts[p.Index].sampled(p) }

// Event adds a piece and returns the event for that piece.
func (a *OpenAIAnswer) Event(p session.Piece) api.OpenAICompletion {
	a.Add(p)
	event := a.head
	event.Offset = p.Offset
	event.Choices = []api.OpenAIChoice{a.texts[p.Index].take(p.Index, a.request.LogProbs)}
	return event
}

// Whole returns the answer with all texts, and clears the texts in a.
func (a *OpenAIAnswer) Whole() api.OpenAICompletion {
	whole := a.UsageEvent()
	whole.Offset = a.offset
	for i := range a.texts {
		whole.Choices = append(whole.Choices, a.texts[i].take(i, a.request.LogProbs))
	}
	return whole
}

// UsageEvent returns an event that has no choices and reports the token usage.
func (a *OpenAIAnswer) UsageEvent() api.OpenAICompletion {
	prompts := int64(0)
	for _, prompt := range a.request.Prompts {
		prompts += a.model.CountTokens(prompt)
	}
	event := a.head
	event.Usage = &api.OpenAIUsage{
		PromptTokens: prompts, CompletionTokens: a.sampled, TotalTokens: prompts + a.sampled,
	}
	return event
}

// WithoutUsage is an event whose usage is null. If the last event of a stream reports the token
// usage, every earlier event is a WithoutUsage.
type WithoutUsage struct {
	api.OpenAICompletion
	Usage *api.OpenAIUsage `json:"usage"`
}

// CheckAnswer refuses a request whose complete answer would be too large for memory.
func CheckAnswer(m session.ModelInfo, r session.BatchRequest) error {
	bytes := AnswerBytes(m, r)
	if bytes <= limits.OpenAIAnswerBytesMax {
		return nil
	}
	field := "n"
	if r.LogProbs {
		field = "logprobs"
	}
	return problem.Field(api.ProblemInvalidField, field,
		fmt.Sprintf("an answer of up to %d bytes", bytes),
		fmt.Sprintf("at most %d bytes, or stream=true", limits.OpenAIAnswerBytesMax))
}

// StreamBytes returns the memory in bytes for the pieces of a streamed answer that wait to be sent.
// It returns 0 unless the answer repeats the prompts with scores. The server scores a prompt in
// chunks, and makes the pieces of a chunk for all texts at once.
func StreamBytes(r session.BatchRequest) int64 {
	if !r.Echo || !r.LogProbs {
		return 0
	}
	const chunks = 2 // one chunk being sent and one being read
	const perToken, perCandidate = 40, 24
	return chunks * session.ChunkTokensMax * int64(r.N*perToken+(r.Top+1)*perCandidate)
}

// AnswerBytes returns an upper bound of the memory in bytes for an answer that is not streamed. It
// counts the texts and, if requested, their scores. The scores exist three times: as collected JSON
// lists, in the object logprobs, and in the encoded answer.
func AnswerBytes(m session.ModelInfo, r session.BatchRequest) int64 {
	const perByte = 16      // bytes of memory per byte of text, which JSON may escape as \u0000
	const perToken = 3 * 50 // three copies of a token's name, offset and score
	const perCandidate = 3 * 40
	texts, word := int64(r.N), int64(1)
	name := int64(0) // additional bytes for the name of a word
	if m.OfWords() {
		word, name = int64(m.TokenBytes), 3*int64(m.TokenBytes)
	}
	sampled, echoed := int64(len(r.Prompts))*texts*int64(r.MaxTokens), int64(0)
	if r.Echo {
		for _, prompt := range r.Prompts {
			echoed += int64(len(prompt)) * texts // A prompt has at most one token per byte.
		}
	}
	bytes := (sampled*word + echoed) * perByte
	if r.LogProbs {
		bytes += (sampled + echoed) * (perToken + name + (perCandidate+name)*int64(r.Top+1))
	}
	return bytes
}
