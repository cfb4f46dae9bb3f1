package codec

import (
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// openAIText is one text of an answer in OpenAI's form, as received so far.
type openAIText struct {
	bytes    int
	echoed   int    // length of the prompt in bytes if the answer repeats the prompt, else 0
	chars    int    // number of characters whose tokens are in logProbs
	text     []byte // received, but not sent yet
	logProbs logProbsBlock
	finish   *api.FinishReason
	words    wordText // the text cut into tokens; only for a model of words
}

func (t *openAIText) add(p session.Piece) {
	t.text = append(t.text, p.Text...)
	t.bytes += len(p.Text)
	if p.FinishReason != "" {
		t.finish = new(api.FinishReason(p.FinishReason))
	}
}

// addBytes adds the log-probabilities of a piece, for a model of bytes. Call addBytes before add,
// which advances t.bytes.
func (t *openAIText) addBytes(p session.Piece) {
	for at := 0; at < len(p.Text); {
		_, size := utf8.DecodeRune(p.Text[at:])
		for ; size > 0; size-- {
			score := tokenScore{chars: t.chars, scored: t.bytes+at > 0 || t.echoed == 0}
			score.own.ID = int32(p.Text[at])
			score.take(p, at)
			t.logProbs.add(score, byteName)
			at++
		}
		t.chars++
	}
}

func (t *openAIText) addWords(m *session.ModelInfo, p session.Piece) {
	t.words.add(p.Text)
	for i, id := range p.Words.IDs {
		own, spell := t.words.cut(m, id, p.Words.Sizes[i])
		score := tokenScore{chars: t.chars, scored: t.words.named > t.echoed ||
			t.words.named > len(own)}
		score.own.ID = id
		score.take(p, i)
		t.logProbs.add(score, func(id int32) []byte { return quoted(spell(id)) })
		t.chars += utf8.RuneCount(own)
	}
}

// take copies the scores of the token with index at in a piece, if s.scored is true.
func (s *tokenScore) take(p session.Piece, at int) {
	if !s.scored {
		return
	}
	s.own.LogProb = p.LogProbs[at]
	if p.Top != nil {
		s.top = p.Top[at]
	}
}

// take returns the text received since the last call, as a choice.
func (t *openAIText) take(index int, logProbs bool) api.OpenAIChoice {
	choice := api.OpenAIChoice{Text: EncodeText(t.text), Index: index, FinishReason: t.finish}
	if logProbs {
		choice.Logprobs = new(t.logProbs.json())
	}
	t.text, t.logProbs = t.text[:0], logProbsBlock{}
	return choice
}

func (t *openAIText) sampled(p session.Piece) int {
	left := max(0, t.echoed-t.bytes)
	return max(0, len(p.Text)-left)
}
