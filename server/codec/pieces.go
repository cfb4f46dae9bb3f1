package codec

import (
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// PieceEncoder encodes the pieces of one completion in order.
type PieceEncoder struct {
	model session.ModelInfo
	words wordText
}

// NewPieceEncoder makes the encoder for a completion by model m.
func NewPieceEncoder(m session.ModelInfo) *PieceEncoder { return &PieceEncoder{model: m} }

// Piece encodes the event of the next piece of sampled text.
func (e *PieceEncoder) Piece(p session.Piece) api.PieceEvent {
	text, exact := encodeText(p.Text)
	event := api.PieceEvent{
		Type: api.EventPiece, Text: text, TextBase64: exact, Logprobs: p.LogProbs,
	}
	if !e.model.OfWords() {
		event.TopLogprobs = encodeTop(p.Top, nil)
		return event
	}
	e.words.add(p.Text)
	for i, id := range p.Words.IDs {
		own, spell := e.words.cut(&e.model, id, p.Words.Sizes[i])
		name, _ := encodeText(own)
		event.Tokens = append(event.Tokens, name)
		if p.Top != nil {
			event.TopLogprobs = append(event.TopLogprobs, encodeTop(p.Top[i:i+1], spell)...)
		}
	}
	return event
}

// encodeTop encodes the likeliest tokens at each position of a text. spell returns the text of a
// token; if spell is nil, the texts are omitted. The result is nil if top is nil.
func encodeTop(top [][]session.Candidate, spell spelling) [][]api.TokenLogprob {
	if top == nil {
		return nil
	}
	out := make([][]api.TokenLogprob, len(top))
	for i, candidates := range top {
		out[i] = encodeCandidates(candidates, spell)
	}
	return out
}

func encodeCandidates(candidates []session.Candidate, spell spelling) []api.TokenLogprob {
	out := make([]api.TokenLogprob, len(candidates))
	for i, c := range candidates {
		out[i] = api.TokenLogprob{Token: c.ID, Logprob: c.LogProb}
		if spell != nil {
			name, _ := encodeText(spell(c.ID))
			out[i].Text = &name
		}
	}
	return out
}

// top encodes the likeliest tokens at each position of a chunk, or returns nil if they were not
// requested. The spelling of a word depends on the token before it.
func (e Encoder) top(c *session.Chunk, top [][]session.Candidate) [][]api.TokenLogprob {
	if c.Words == nil || top == nil {
		return encodeTop(top, nil)
	}
	out, before := make([][]api.TokenLogprob, len(top)), c.Words.After
	for i, candidates := range top {
		out[i] = encodeCandidates(candidates, func(id int32) []byte {
			return e.model.Spell(nil, before, id)
		})
		before = c.Words.IDs[i]
	}
	return out
}

// EncodeCompletion encodes the answer to a completion. scores is one event for all its pieces, and
// elapsed is the time that the completion took.
func EncodeCompletion(
	c session.Completion, scores api.PieceEvent, elapsed time.Duration,
) api.Completion {
	text, exact := encodeText(c.Text)
	return api.Completion{
		Type:         api.EventCompletion,
		Text:         text,
		TextBase64:   exact,
		Logprobs:     scores.Logprobs,
		Tokens:       scores.Tokens,
		TopLogprobs:  scores.TopLogprobs,
		FinishReason: api.FinishReason(c.FinishReason),
		Usage:        encodeUsage(c),
		Seed:         c.Seed,
		Offset:       c.Offset,
		ElapsedMs:    milliseconds(elapsed),
	}
}

// EncodeDone encodes the last event of a streamed completion. elapsed is the time that the
// completion took.
func EncodeDone(c session.Completion, elapsed time.Duration) api.DoneEvent {
	return api.DoneEvent{
		Type:         api.EventDone,
		FinishReason: api.FinishReason(c.FinishReason),
		Usage:        encodeUsage(c),
		Seed:         c.Seed,
		Offset:       c.Offset,
		ElapsedMs:    milliseconds(elapsed),
	}
}
