package codec

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// EncodeSession is what a client is told of a session.
func EncodeSession(i session.Info) api.Session {
	s := api.Session{
		ID:            i.ID,
		Model:         i.Model,
		CreatedAt:     i.Created, // zero, like the rest, for a session that cannot be read
		LastUsedAt:    i.LastUsed,
		Offset:        i.Offset,
		Step:          i.Step,
		PendingTokens: i.Pending,
		Totals:        measures(i.Tally),
		MemoryBytes:   i.MemoryBytes,
		DiskBytes:     i.DiskBytes,
		Seed:          i.Seed,
		TTLSeconds:    int64(i.TTL / time.Second),
	}
	if i.Name != "" {
		s.Name = &i.Name
	}
	if i.Numerics != "" {
		s.Numerics = &i.Numerics
	}
	if len(i.Settings) > 0 { // else the head of the session could not be read
		settings := EncodeSettings(i.Settings)
		s.Settings = &settings
	}
	if i.History != "" {
		history := api.History(i.History)
		s.History = &history
	}
	if i.Parent != nil {
		s.Parent = &api.Parent{ID: i.Parent.ID, Offset: i.Parent.Offset}
	}
	if r := i.Recovery; r != nil {
		s.Recovering = &api.Recovering{DoneBytes: r.Done, OfBytes: r.Of}
	}
	if i.Owner != "" {
		s.Owner = &i.Owner
	}
	if i.Err != nil {
		text := problem.Clipped(i.Err.Error(), limits.DetailCharsMax)
		s.Error = &text
	}
	if len(i.Labels) > 0 {
		labels := api.Labels(i.Labels)
		s.Labels = &labels
	}
	return s
}

// EncodeChunk is the event of a scored chunk.
func EncodeChunk(c session.Chunk) api.ChunkEvent {
	return api.ChunkEvent{
		Type:         api.EventChunk,
		Step:         c.Step,
		Offset:       c.Offset,
		Bytes:        c.Bytes,
		Chars:        c.Chars,
		Tokens:       c.Tokens,
		Bits:         c.Bits,
		BPC:          bpc(&c.Bits, c.Chars),
		Perplexity:   perplexity(c.Bits, c.Tokens),
		BaselineBits: c.BaselineBits,
		BaselineBPC:  bpc(c.BaselineBits, c.Chars),
		Totals:       measures(c.Total),
		Adapted:      api.Adapted{Updates: c.Updates, Written: c.Written, FastRMS: c.FastRMS},
		Complete:     c.Complete,
		Logprobs:     c.LogProbs,
		ElapsedMs:    milliseconds(c.Elapsed),
	}
}

// EncodeLine is the event of a line of a text that is learnt as the request says.
func EncodeLine(l session.Line, learn string) api.LineEvent {
	e := api.LineEvent{
		Type:         api.EventLine,
		Number:       l.Number,
		Offset:       l.Offset,
		Bytes:        l.Bytes,
		Chars:        l.Chars,
		Bits:         l.Bits,
		BPC:          bpc(&l.Bits, l.Chars),
		BaselineBits: l.BaselineBits,
		P:            l.P,
		Rank:         l.Rank(),
		Seen:         l.Seen,
		Warm:         l.Warm(),
		Span:         api.LineSpan{From: l.From, To: l.To},
		Ended:        l.Ended,
		TokenBits:    l.TokenBits,
	}
	if l.Text != nil {
		text, exact := encodeText(l.Text)
		e.Text, e.TextBase64 = &text, exact
	}
	if learn == session.LearnUnflagged && l.Ended {
		learnt := !l.Unlearnt
		e.Learnt = &learnt
	}
	if l.Cut {
		e.Cut = &l.Cut
	}
	return e
}

// EncodeSummary is the answer to a score request, and the last event of a streamed one.
func EncodeSummary(s session.Summary) api.SummaryEvent {
	return api.SummaryEvent{
		Type:         api.EventSummary,
		Offset:       s.Offset,
		Bytes:        s.Bytes,
		Chars:        s.Chars,
		Tokens:       s.Tokens,
		Bits:         s.Bits,
		BPC:          bpc(&s.Bits, s.Chars),
		Perplexity:   perplexity(s.Bits, s.Tokens),
		BaselineBits: s.BaselineBits,
		BaselineBPC:  bpc(s.BaselineBits, s.Chars),
		Chunks:       int64(s.Chunks),
		Updates:      s.Updates,
		Totals:       measures(s.Total),
		ElapsedMs:    milliseconds(s.Elapsed),
	}
}

// measures is a tally of scored text, with the ratios that follow from it.
func measures(t session.Tally) api.Measures {
	return api.Measures{
		Bytes:        t.Bytes,
		Chars:        t.Chars,
		Tokens:       t.Tokens,
		Bits:         t.Bits,
		BPC:          bpc(&t.Bits, t.Chars),
		Perplexity:   perplexity(t.Bits, t.Tokens),
		BaselineBits: t.BaselineBits,
		BaselineBPC:  bpc(t.BaselineBits, t.Chars),
	}
}

// bpc is bits per character; nil where there are no bits or no characters.
func bpc(bits *float64, chars int64) *float64 {
	if bits == nil || chars == 0 {
		return nil
	}
	ratio := *bits / float64(chars)
	return &ratio
}

// perplexity is 2^(bits/tokens); nil where there are no tokens, or where it is beyond every float64.
func perplexity(bits float64, tokens int64) *float64 {
	if tokens == 0 {
		return nil
	}
	p := math.Exp2(bits / float64(tokens))
	if math.IsInf(p, 0) {
		return nil
	}
	return &p
}

// milliseconds is a time in the unit of fields that end in _ms.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// encodeText gives sampled bytes as a string, and, where they are not UTF-8, as they are.
func encodeText(b []byte) (text string, exact []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), b
}

// encodeUsage counts the tokens of a completion.
func encodeUsage(c session.Completion) api.Usage {
	prompt, sampled := int64(c.PromptTokens), int64(c.CompletionTokens)
	return api.Usage{PromptTokens: prompt, CompletionTokens: sampled, TotalTokens: prompt + sampled}
}

// EncodeModel is what a client is told of a model.
func EncodeModel(m session.ModelInfo) api.Model {
	model := api.Model{
		ID:         m.ID,
		Object:     api.ObjectModel,
		OwnedBy:    "lmserve",
		Name:       m.Name,
		Parameters: m.Parameters,
		Tokenizer:  m.Tokenizer,
		Banks:      m.Banks,
		Defaults:   EncodeSettings(m.Defaults),
		Config:     m.Config,
		Card:       m.Card,
	}
	if !m.Created.IsZero() {
		model.Created = m.Created.Unix()
	}
	if model.Config == nil {
		model.Config = json.RawMessage("{}")
	}
	if model.Card == nil {
		model.Card = json.RawMessage("{}")
	}
	return model
}

// EncodeCompletion is the answer to a completion that took this time. The scores are those of all its
// pieces.
func EncodeCompletion(
	c session.Completion, scores session.Piece, elapsed time.Duration,
) api.Completion {
	text, exact := encodeText(c.Text)
	return api.Completion{
		Type:         api.EventCompletion,
		Text:         text,
		TextBase64:   exact,
		Logprobs:     scores.LogProbs,
		TopLogprobs:  encodeTop(scores.Top),
		FinishReason: api.FinishReason(c.FinishReason),
		Usage:        encodeUsage(c),
		Seed:         c.Seed,
		Offset:       c.Offset,
		ElapsedMs:    milliseconds(elapsed),
	}
}

// EncodePiece is the event of a piece of sampled text.
func EncodePiece(p session.Piece) api.PieceEvent {
	text, exact := encodeText(p.Text)
	return api.PieceEvent{
		Type: api.EventPiece, Text: text, TextBase64: exact,
		Logprobs: p.LogProbs, TopLogprobs: encodeTop(p.Top),
	}
}

// encodeTop is the likeliest tokens at each token of a text; nil if nobody asked for them.
func encodeTop(top [][]session.Candidate) [][]api.TokenLogprob {
	if top == nil {
		return nil
	}
	out := make([][]api.TokenLogprob, len(top))
	for i, candidates := range top {
		out[i] = make([]api.TokenLogprob, len(candidates))
		for j, c := range candidates {
			out[i][j] = api.TokenLogprob{Token: c.ID, Logprob: c.LogProb}
		}
	}
	return out
}

// EncodeDone is the last event of a completion that took this time.
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
