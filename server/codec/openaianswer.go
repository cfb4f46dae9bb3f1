package codec

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// OpenAIAnswer makes the answer to a completion in OpenAI's form of the pieces of its texts: an
// event for each, or one answer in the end.
type OpenAIAnswer struct {
	head    api.OpenAICompletion // what all events of a stream have in common
	model   session.ModelInfo
	request session.BatchRequest
	texts   []openAIText
	sampled int64 // tokens
	offset  *int64
}

// NewOpenAIAnswer makes an answer that has no text yet, under an id, from a model.
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

// Add adds a piece.
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

// Sampled is how many bytes of a piece that is to be added next were sampled: those that are not of
// a prompt.
func (a *OpenAIAnswer) Sampled(p session.Piece) int { return a.texts[p.Index].sampled(p) }

// Event adds a piece, and gives it as an event.
func (a *OpenAIAnswer) Event(p session.Piece) api.OpenAICompletion {
	a.Add(p)
	event := a.head
	event.Offset = p.Offset
	event.Choices = []api.OpenAIChoice{a.texts[p.Index].take(p.Index, a.request.LogProbs)}
	return event
}

// Whole is the answer of all texts. It takes them, like Event.
func (a *OpenAIAnswer) Whole() api.OpenAICompletion {
	whole := a.UsageEvent()
	whole.Offset = a.offset
	for i := range a.texts {
		whole.Choices = append(whole.Choices, a.texts[i].take(i, a.request.LogProbs))
	}
	return whole
}

// UsageEvent is the event without choices that has the account of the tokens.
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

// WithoutUsage is an event of a stream that ends with an account of the tokens: all events but that
// one say that they have none.
type WithoutUsage struct {
	api.OpenAICompletion
	Usage *api.OpenAIUsage `json:"usage"`
}

// CheckAnswer refuses a request whose answer would be too large to be made as a whole.
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
		fmt.Sprintf("an answer that may take %d bytes of memory", bytes),
		fmt.Sprintf("at most %d, or stream to be true", limits.OpenAIAnswerBytesMax))
}

// StreamBytes is the memory that the pieces of a streamed answer take until they are sent, where
// that is more than little: a prompt that is echoed comes a chunk at a time, for all its texts at
// once, and with the scores of its tokens.
func StreamBytes(r session.BatchRequest) int64 {
	if !r.Echo || !r.LogProbs {
		return 0
	}
	const chunks = 2 // one is sent, one is read
	const perToken, perCandidate = 40, 24
	return chunks * session.ChunkTokensMax * int64(r.N*perToken+(r.Top+1)*perCandidate)
}

// AnswerBytes is the memory that a whole answer takes at most until it is sent: the texts and, if
// asked for, their tokens' scores, as they are kept, written, and written again as a part of the
// answer.
func AnswerBytes(m session.ModelInfo, r session.BatchRequest) int64 {
	const perByte = 16      // of text, which JSON may write as \u0000
	const perToken = 3 * 50 // its name, offset and score, in numbers of up to 22 digits
	const perCandidate = 3 * 40
	texts, word := int64(r.N), int64(1)
	name := int64(0) // what a name takes beyond one of a byte
	if m.OfWords() {
		word, name = int64(m.TokenBytes), 3*int64(m.TokenBytes)
	}
	sampled, echoed := int64(len(r.Prompts))*texts*int64(r.MaxTokens), int64(0)
	if r.Echo {
		for _, prompt := range r.Prompts {
			echoed += int64(len(prompt)) * texts // a token has a byte at least
		}
	}
	bytes := (sampled*word + echoed) * perByte
	if r.LogProbs {
		bytes += (sampled + echoed) * (perToken + name + (perCandidate+name)*int64(r.Top+1))
	}
	return bytes
}
