package codec

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// OpenAIAnswer makes the answer to a completion in OpenAI's form of the pieces of its texts: an
// event for each, or one answer in the end.
type OpenAIAnswer struct {
	head    api.OpenAICompletion // what all events of a stream have in common
	request session.BatchRequest
	texts   []openAIText
	sampled int64 // tokens
}

// openAIText is one of the texts.
type openAIText struct {
	tokens   int // of what is there
	chars    int
	text     []byte // not told yet
	logProbs logProbsBlock
	finish   *api.FinishReason
}

// NewOpenAIAnswer makes an answer that has no text yet, under an id, from a model.
func NewOpenAIAnswer(
	id, model string, created time.Time, request session.BatchRequest,
) *OpenAIAnswer {
	return &OpenAIAnswer{
		head: api.OpenAICompletion{
			ID: id, Object: api.ObjectTextCompletion, Created: created.Unix(), Model: model,
			Choices: []api.OpenAIChoice{},
		},
		request: request,
		texts:   make([]openAIText, len(request.Prompts)*request.N),
	}
}

// Add adds a piece.
func (a *OpenAIAnswer) Add(p session.Piece) {
	t := &a.texts[p.Index]
	t.text = append(t.text, p.Text...)
	if a.request.LogProbs {
		first := t.tokens == 0 && len(a.echoed(p.Index)) > 0
		t.logProbs.add(p, t.chars, first)
	}
	t.tokens += len(p.Text)
	t.chars += utf8.RuneCount(p.Text)
	if p.FinishReason != "" {
		reason := api.FinishReason(p.FinishReason)
		t.finish = &reason
		a.sampled += int64(p.Tokens)
	}
}

// Sampled is how many bytes of a piece that is to be added next were sampled: those that are not of
// a prompt.
func (a *OpenAIAnswer) Sampled(p session.Piece) int {
	left := max(0, len(a.echoed(p.Index))-a.texts[p.Index].tokens)
	return max(0, len(p.Text)-left)
}

// echoed is the prompt that a text begins with; none if prompts are not echoed.
func (a *OpenAIAnswer) echoed(index int) []byte {
	if !a.request.Echo {
		return nil
	}
	return a.request.Prompts[index/a.request.N]
}

// Event adds a piece, and gives it as an event.
func (a *OpenAIAnswer) Event(p session.Piece) api.OpenAICompletion {
	a.Add(p)
	event := a.head
	event.Choices = []api.OpenAIChoice{a.take(p.Index)}
	return event
}

// take takes what there is of a text: it is not told again.
func (a *OpenAIAnswer) take(index int) api.OpenAIChoice {
	t := &a.texts[index]
	choice := api.OpenAIChoice{Text: EncodeText(t.text), Index: index, FinishReason: t.finish}
	if a.request.LogProbs {
		block := t.logProbs.json()
		choice.Logprobs = &block
	}
	t.text, t.logProbs = t.text[:0], logProbsBlock{}
	return choice
}

// Whole is the answer of all texts. It takes them, like Event.
func (a *OpenAIAnswer) Whole() api.OpenAICompletion {
	whole := a.UsageEvent()
	for i := range a.texts {
		whole.Choices = append(whole.Choices, a.take(i))
	}
	return whole
}

// UsageEvent is the event without choices that has the account of the tokens.
func (a *OpenAIAnswer) UsageEvent() api.OpenAICompletion {
	prompts := int64(0)
	for _, prompt := range a.request.Prompts {
		prompts += int64(len(prompt)) // a token is a byte
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
func CheckAnswer(r session.BatchRequest) error {
	bytes := AnswerBytes(r)
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

// StreamBytes is the memory that the pieces of a streamed answer take until they are sent, where that
// is more than little: a prompt that is echoed comes a chunk at a time, for all its texts at once,
// and with the scores of its tokens.
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
func AnswerBytes(r session.BatchRequest) int64 {
	const perByte = 16      // of text, which JSON may write as \u0000
	const perToken = 3 * 50 // its name, offset and score, in numbers of up to 22 digits
	const perCandidate = 3 * 40
	tokens := int64(len(r.Prompts)) * int64(r.N) * int64(r.MaxTokens)
	if r.Echo {
		for _, prompt := range r.Prompts {
			tokens += int64(len(prompt)) * int64(r.N)
		}
	}
	bytes := tokens * perByte
	if r.LogProbs {
		bytes += tokens * (perToken + perCandidate*int64(r.Top+1))
	}
	return bytes
}
