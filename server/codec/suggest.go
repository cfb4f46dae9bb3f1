package codec

import (
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// DecodeSuggest decodes a request for suggestions.
func DecodeSuggest(
	r api.SuggestRequest, p api.SuggestParams,
) (session.SuggestRequest, error) {
	wait, err := DecodeWait(p.Wait)
	return session.SuggestRequest{
		Typed: []byte(Value(r.Typed)), Suffix: []byte(Value(r.Suffix)),
		N:    valueOr(r.N, session.CandidatesDefault),
		Unit: string(Value(r.Unit)), Least: Value(r.MinProbability),
		Within:  time.Duration(Value(r.WithinMs)) * time.Millisecond,
		Refused: r.Refused, Wait: wait,
	}, err
}

// EncodeSuggestions encodes suggestions for the text that follows.
func EncodeSuggestions(s session.Suggested, elapsed time.Duration) api.Suggestions {
	answer := api.Suggestions{
		Candidates: []api.SuggestedText{}, Complete: s.Complete, Offset: s.Offset, Rows: s.Rows,
		ElapsedMs: milliseconds(elapsed),
	}
	for _, c := range s.Candidates {
		answer.Candidates = append(answer.Candidates, api.SuggestedText{
			Text: c.Text, Probability: c.Probability, Separator: orNil(c.Separator), Saves: c.Gain,
		})
	}
	return answer
}
