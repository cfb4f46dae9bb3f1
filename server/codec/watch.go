package codec

import (
	"strconv"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeWatch decodes the parameters of a request that watches a session.
func DecodeWatch(p api.WatchSessionParams) (session.WatchOptions, error) {
	o := session.WatchOptions{
		Offset: p.Offset, LogProbs: Value(p.Logprobs), Top: Value(p.TopLogprobs),
		Lines: ofLines(p.Unit), Incidents: Value(p.Unit) == api.UnitIncident,
		TokenBits: Value(p.Tokens),
		Records:   Value(p.Unit) == api.UnitRecord, Text: valueOr(p.Text, true),
		Updates: Value(p.Updates),
	}
	if o.Offset == nil {
		o.Offset = p.LastEventID
	}
	refuse := func(name, found, expected string) error {
		return problem.Field(api.ProblemInvalidParameter, name, found, expected)
	}
	switch {
	case o.Lines && o.LogProbs:
		return o, refuse("logprobs", "true",
			"false with unit=line; use tokens=true for the bits within a line")
	case o.Top > 0 && !o.LogProbs:
		return o, refuse("top_logprobs", strconv.Itoa(o.Top), "0 without logprobs=true")
	case (!o.Lines || o.Records) && o.TokenBits:
		return o, refuse("tokens", "true", "false without unit=line; use logprobs=true for chunks")
	}
	return o, nil
}

// Start encodes the first event of a watch, with the session's position.
func (e Encoder) Start(s session.WatchStart) api.StartEvent {
	return api.StartEvent{
		Type: api.EventStart, Offset: s.Offset, Step: s.Step, LinesFrom: s.LinesFrom,
		PendingBytes: e.ofWords(s.PendingBytes), Totals: e.measures(s.Tally),
	}
}

// Gap encodes the event that tells a client that it has missed events.
func Gap(g session.Gap) api.GapEvent {
	return api.GapEvent{
		Type: api.EventGap, From: g.From, To: g.To, Events: orNil(int64(g.Events)),
	}
}

// Update encodes the event of an update of the fast weights.
func Update(u session.Update) api.UpdateEvent {
	event := api.UpdateEvent{
		Type: api.EventUpdate, Offset: u.Offset, Step: u.Step, Updates: u.Updates,
		Written: u.Written, FastRMS: u.FastRMS, ElapsedMs: milliseconds(u.Elapsed),
		Branches: make([]api.BranchNorm, len(u.Branches)),
	}
	for i, b := range u.Branches {
		n := api.BranchNorm{Name: b.Name, Elements: int64(b.Size), Norm: b.M, Change: b.Change}
		for _, bank := range b.Banks {
			n.Banks = append(n.Banks, api.FastNorm{Norm: bank.M, Change: bank.Change})
		}
		event.Branches[i] = n
	}
	return event
}

// Past is a decoded request for an earlier part of a session's text or scores.
type Past struct {
	Offset, Length int64
	Points         int
}

// DecodeText decodes the parameters of a request for a part of a session's text.
func DecodeText(p api.GetTextParams) Past {
	return Past{Offset: Value(p.Offset), Length: valueOr(p.Length, limits.TextLengthDefault)}
}

// DecodeScores decodes the parameters of a request for past scores.
func DecodeScores(p api.GetScoresParams) Past {
	return Past{
		Offset: Value(p.Offset), Length: valueOr(p.Length, limits.ScoresLengthMax),
		Points: valueOr(p.Points, limits.ScoresPointsDefault),
	}
}

// PastScores encodes the scores of a part of a session's text.
func (e Encoder) PastScores(h session.History) api.PastScores {
	body := api.PastScores{
		From: h.From, Next: h.Next, End: h.End, Scores: make([]api.PastScore, len(h.Scores)),
	}
	for i, p := range h.Scores {
		score := api.PastScore{
			Offset: p.Offset, Bytes: p.Bytes, Tokens: p.Tokens, Bits: p.Bits, Time: p.Time,
			BaselineBits: p.BaselineBits,
		}
		if e.words {
			score.UnknownBytes, score.UnknownBits = &p.UnknownBytes, &p.UnknownBits
		}
		body.Scores[i] = score
	}
	return body
}
