package server

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
)

func encodeSession(i session.Info) api.Session {
	s := api.Session{
		ID:            i.ID,
		Model:         i.Model,
		CreatedAt:     i.Created, // zero, as all that follows, if it could not be read
		LastUsedAt:    i.LastUsed,
		Offset:        i.Offset,
		Step:          i.Step,
		PendingTokens: i.Pending,
		Totals:        measures(i.Offset, i.Chars, i.Tokens, i.Bits, i.BaselineBits),
		MemoryBytes:   i.MemoryBytes,
		Seed:          i.Seed,
		TTLSeconds:    int64(i.TTL / time.Second),
	}
	if i.Numerics != "" {
		s.Numerics = &i.Numerics
	}
	if len(i.Settings) > 0 { // else the session could not be read
		settings := encodeSettings(i.Settings)
		s.Settings = &settings
	}
	if i.History != "" {
		history := api.History(i.History)
		s.History = &history
	}
	if i.Parent != nil {
		s.Parent = &api.Parent{ID: i.Parent.ID, Offset: i.Parent.Offset}
	}
	if i.Owner != "" {
		s.Owner = &i.Owner
	}
	if i.Err != nil {
		text := clipped(i.Err.Error(), detailCharsMax)
		s.Error = &text
	}
	if len(i.Labels) > 0 {
		labels := api.Labels(i.Labels)
		s.Labels = &labels
	}
	return s
}

func encodeChunk(c session.Chunk) api.ChunkEvent {
	return api.ChunkEvent{
		Type:         api.EventChunk,
		Step:         c.Step,
		Offset:       c.Offset,
		Bytes:        int64(c.Bytes),
		Chars:        int64(c.Chars),
		Tokens:       int64(c.Tokens),
		Bits:         c.Bits,
		BPC:          bpc(&c.Bits, int64(c.Chars)),
		Perplexity:   perplexity(c.Bits, int64(c.Tokens)),
		BaselineBits: c.BaselineBits,
		BaselineBPC:  bpc(c.BaselineBits, int64(c.Chars)),
		Totals:       measures(c.TotalBytes, c.TotalChars, c.TotalTokens, c.TotalBits, c.TotalBaselineBits),
		Adapted:      api.Adapted{Updates: c.Updates, Written: c.Written, FastRMS: c.FastRMS},
		Complete:     c.Complete,
		Logprobs:     c.LogProbs,
		ElapsedMs:    milliseconds(c.Elapsed),
	}
}

func encodeSummary(s session.Summary) api.SummaryEvent {
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
		Totals:       measures(s.TotalBytes, s.TotalChars, s.TotalTokens, s.TotalBits, s.TotalBaselineBits),
		ElapsedMs:    milliseconds(s.Elapsed),
	}
}

func measures(bytes, chars, tokens int64, bits float64, baseline *float64) api.Measures {
	return api.Measures{
		Bytes:        bytes,
		Chars:        chars,
		Tokens:       tokens,
		Bits:         bits,
		BPC:          bpc(&bits, chars),
		Perplexity:   perplexity(bits, tokens),
		BaselineBits: baseline,
		BaselineBPC:  bpc(baseline, chars),
	}
}

// bpc is bits per character; nil where there is none.
func bpc(bits *float64, chars int64) *float64 {
	if bits == nil || chars == 0 {
		return nil
	}
	ratio := *bits / float64(chars)
	return &ratio
}

// perplexity is 2^(bits/tokens); nil where there is none, or where it is beyond every float64.
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

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// encodeText gives sampled bytes as a string, and, where a string cannot hold them, as they are.
func encodeText(b []byte) (text string, exact []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), b
}

func encodeUsage(c session.Completion) api.Usage {
	prompt, sampled := int64(c.PromptTokens), int64(c.CompletionTokens)
	return api.Usage{PromptTokens: prompt, CompletionTokens: sampled, TotalTokens: prompt + sampled}
}

func encodeModel(m session.ModelInfo) api.Model {
	model := api.Model{
		ID:         m.ID,
		Object:     api.ObjectModel,
		OwnedBy:    "lmserve",
		Name:       m.Name,
		Parameters: m.Parameters,
		Tokenizer:  m.Tokenizer,
		Banks:      m.Banks,
		Defaults:   encodeSettings(m.Defaults),
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
