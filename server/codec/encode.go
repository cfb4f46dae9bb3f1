package codec

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// EncodeSession encodes a session's description.
func EncodeSession(i session.Info) api.Session {
	e := Encoder{words: i.Words}
	s := api.Session{
		ID:            i.ID,
		Model:         i.Model,
		CreatedAt:     i.Created, // zero if the session cannot be read
		LastUsedAt:    i.LastUsed,
		Offset:        i.Offset,
		Step:          i.Step,
		PendingTokens: i.Pending,
		PendingBytes:  e.ofWords(i.PendingBytes),
		Totals:        e.measures(i.Tally),
		MemoryBytes:   i.MemoryBytes,
		DiskBytes:     i.DiskBytes,
		Seed:          i.Seed,
		TTLSeconds:    int64(i.TTL / time.Second),
		Name:          orNil(i.Name),
		Numerics:      orNil(i.Numerics),
		History:       orNil(api.History(i.History)),
		Owner:         orNil(i.Owner),
		Error:         errorText(i.Err),
	}
	if len(i.Settings) > 0 { // empty if the stored session could not be read
		s.Settings = new(EncodeSettings(i.Settings))
	}
	if i.Parent != nil {
		s.Parent = &api.Parent{ID: i.Parent.ID, Offset: i.Parent.Offset}
	}
	if i.ShadowOf != nil {
		s.ShadowOf = new(encodeShadow(*i.ShadowOf, i.ShadowOf.Words, i.Words))
	}
	for _, shadow := range i.Shadows {
		s.Shadows = append(s.Shadows, encodeShadow(shadow, i.Words, shadow.Words))
	}
	if r := i.Recovery; r != nil {
		s.Recovering = &api.Recovering{DoneBytes: r.Done, OfBytes: r.Of}
	}
	if len(i.Labels) > 0 {
		s.Labels = new(api.Labels(i.Labels))
	}
	return s
}

func errorText(err error) *string {
	if err == nil {
		return nil
	}
	return new(problem.Clipped(err.Error(), limits.DetailCharsMax))
}

// Chunk encodes the event of a scored chunk.
func (e Encoder) Chunk(c session.Chunk) api.ChunkEvent {
	m := e.measures(c.Tally)
	event := api.ChunkEvent{
		Type:               api.EventChunk,
		Step:               c.Step,
		Offset:             c.Offset,
		Bytes:              m.Bytes,
		Chars:              m.Chars,
		Tokens:             m.Tokens,
		Bits:               m.Bits,
		BitsPerByte:        m.BitsPerByte,
		BPC:                m.BPC,
		Perplexity:         m.Perplexity,
		Unknown:            m.Unknown,
		UnknownBytes:       m.UnknownBytes,
		UnknownBits:        m.UnknownBits,
		BaselineBits:       m.BaselineBits,
		BaselineBPC:        m.BaselineBPC,
		BaselinePerplexity: m.BaselinePerplexity,
		NetworkBits:        c.NetworkBits,
		PendingBytes:       e.ofWords(c.PendingBytes),
		Totals:             e.measures(c.Total),
		Adapted: api.Adapted{Updates: c.Updates, Written: c.Written,
			FastRMS: c.FastRMS},
		Complete:            c.Complete,
		Diverged:            orNil(c.Diverged),
		Logprobs:            c.LogProbs,
		BaselineLogprobs:    c.BaselineLogProbs,
		TopLogprobs:         e.top(&c, c.Top),
		BaselineTopLogprobs: e.top(&c, c.BaselineTop),
		ElapsedMs:           milliseconds(c.Elapsed),
	}
	if c.Words != nil {
		event.TokenBytes = c.Words.Sizes
	}
	if c.Text != nil {
		text, exact := encodeText(c.Text)
		event.Text, event.TextBase64, event.TextOffset = &text, exact, &c.TextOffset
	}
	return event
}

// Line encodes the event of a scored line. If byLine is true, the event also says whether the
// session learned the line.
func (e Encoder) Line(l session.Line, byLine bool) api.LineEvent {
	event := api.LineEvent{
		Type:         api.EventLine,
		Number:       l.Number,
		Offset:       l.Offset,
		Bytes:        l.Bytes,
		Chars:        l.Chars,
		Bits:         l.Bits,
		BPC:          e.bpc(&l.Bits, l.Chars),
		BaselineBits: l.BaselineBits,
		P:            l.P,
		Rank:         l.Rank(),
		Seen:         l.Seen,
		Warm:         l.Warm(),
		Span:         api.LineSpan{From: l.From, To: l.To},
		Ended:        l.Ended,
		TokenBits:    l.TokenBits,
		Cut:          orNil(l.Cut),
	}
	if l.Text != nil {
		text, exact := encodeText(l.Text)
		event.Text, event.TextBase64 = &text, exact
		event.Why = encodeWhy(l.Why)
	}
	for i := range l.Incidents {
		event.Incidents = append(event.Incidents, EncodeIncident(&l.Incidents[i]))
	}
	if event.Lines = orNil(l.Lines); byLine && l.Ended && event.Lines == nil {
		event.Learnt = new(!l.Unlearnt)
	}
	return event
}

// EncodeIncidents encodes a session's incidents.
func EncodeIncidents(l session.IncidentList) api.IncidentList {
	list := api.IncidentList{
		Incidents: []api.Incident{}, Feedback: []api.Feedback{},
		SilentSeconds: orNil(l.SilentAfter.Seconds()),
	}
	for i := range l.Incidents {
		list.Incidents = append(list.Incidents, EncodeIncident(&l.Incidents[i]))
	}
	for _, f := range l.Feedback {
		list.Feedback = append(list.Feedback, api.Feedback{
			Incident: f.Incident, Verdict: api.Verdict(f.Verdict), Sample: f.Sample,
		})
	}
	return list
}

// EncodeIncident encodes one incident.
func EncodeIncident(i *session.IncidentReport) api.Incident {
	of := api.Incident{
		Number: i.Number, State: api.IncidentOpen, First: i.First, Last: i.Last, Offset: i.Offset,
		Lines: i.Lines, P: i.P, Rank: int64(1 / i.P), Why: encodeWhy(i.Why), Samples: []string{},
		Verdict: orNil(api.Verdict(i.Verdict)),
	}
	switch {
	case i.Stays:
		of.State = api.IncidentStays
	case i.Closed:
		of.State = api.IncidentClosed
	}
	for n, text := range i.Samples {
		if n == 0 || text != "" { // The first sample identifies the incident, and may be empty.
			of.Samples = append(of.Samples, text)
		}
	}
	for _, c := range i.Changes {
		of.Changes = append(of.Changes, api.IncidentChange{
			Kind: api.IncidentChangeKind(c.Kind), Line: c.Line, First: c.First,
			Evidence: c.Evidence,
		})
	}
	return of
}

func encodeWhy(w session.Why) *api.LineWhy {
	if w.Token == "" {
		return nil
	}
	why := api.LineWhy{Before: valid(w.Before), Token: valid(w.Token), Usual: []string{}}
	if w.Rare {
		why.Lines = &w.Lines
	}
	for _, text := range w.Usual {
		why.Usual = append(why.Usual, valid(text))
	}
	return &why
}

// valid replaces invalid UTF-8 by U+FFFD, because a text may end in the middle of a character.
func valid(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// Summary encodes the answer to a score request. A streamed answer ends with this event.
func (e Encoder) Summary(s session.Summary) api.SummaryEvent {
	m := e.measures(s.Tally)
	return api.SummaryEvent{
		Type:               api.EventSummary,
		Offset:             s.Offset,
		Bytes:              m.Bytes,
		Chars:              m.Chars,
		Tokens:             m.Tokens,
		Bits:               m.Bits,
		BitsPerByte:        m.BitsPerByte,
		BPC:                m.BPC,
		Perplexity:         m.Perplexity,
		Unknown:            m.Unknown,
		UnknownBytes:       m.UnknownBytes,
		UnknownBits:        m.UnknownBits,
		BaselineBits:       m.BaselineBits,
		BaselineBPC:        m.BaselineBPC,
		BaselinePerplexity: m.BaselinePerplexity,
		NetworkBits:        s.NetworkBits,
		Chunks:             int64(s.Chunks),
		PendingBytes:       e.ofWords(s.PendingBytes),
		Divergences:        orNil(int64(s.Divergences)),
		Duplicate:          orNil(s.Duplicate),
		Updates:            s.Updates,
		Totals:             e.measures(s.Total),
		ElapsedMs:          milliseconds(s.Elapsed),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// encodeText returns sampled bytes as a string. If they are not UTF-8, exact holds the original
// bytes.
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

// EncodeModel encodes a model's description.
func EncodeModel(m session.ModelInfo) api.Model {
	model := api.Model{
		ID:         m.ID,
		Object:     api.ObjectModel,
		OwnedBy:    "lmserve",
		Name:       m.Name,
		Parameters: m.Parameters,
		Tokenizer:  m.Tokenizer,
		VocabSize:  int32(m.Vocab),
		Banks:      m.Banks,
		Defaults:   EncodeSettings(m.Defaults),
		Config:     m.Config,
		Card:       m.Card,

		Loaded:       m.Loaded,
		WeightsBytes: m.WeightsBytes,
		SessionBytes: m.SessionBytes,
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
