package codec

import (
	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// DecodeTexts decodes a request for the scores of texts.
func DecodeTexts(body api.ScoreTextsRequest) session.ScoreTextsRequest {
	r := session.ScoreTextsRequest{Model: Value(body.Model), Seed: body.Seed}
	if body.Settings != nil {
		r.Settings = decodeSettings(*body.Settings)
	}
	for _, text := range body.Texts {
		r.Texts = append(r.Texts, []byte(text))
	}
	return r
}

// Text encodes the score of one text.
func (e Encoder) Text(index int32, s session.Summary) api.TextScore {
	return api.TextScore{
		Type: api.EventText, Index: index, Score: e.measures(s.Tally),
		PendingBytes: e.ofWords(s.PendingBytes), NetworkBits: s.NetworkBits, Updates: s.Updates,
		Divergences: orNil(int64(s.Divergences)), ElapsedMs: milliseconds(s.Elapsed),
	}
}
