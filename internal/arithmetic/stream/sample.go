package stream

import (
	"math"

	"github.com/lmserve/lmserve/tokenizer"
)

// undrawn is a placeholder for a target that is not drawn yet.
var undrawn = []int32{-1}

// Drawer draws the next token from the log-probabilities [V] of all tokens. Next must not keep the
// slice. A *txl.Sampler is a Drawer.
type Drawer interface {
	Next(logProbs []float32) int32
}

// Generate samples the tokens after the stream's text and feeds each token to the stream. It calls
// yield with each token and its log-probability, in nats, until yield returns false. The
// log-probability comes from the model's distribution before temperature and truncation. A Frozen
// copy learns nothing from the tokens.
func (w *Worker) Generate(s *Stream, sampler Drawer, yield func(id int32, logProb float32) bool) {
	w.Sample(s, sampler, func(t Token) bool { return yield(t.ID, t.LogProbs[t.ID]) })
}

// Sample is like Generate, but yield also receives each token's text and the distribution from
// which the token was drawn. EndWord first completes a pending word. The token for unknown words is
// never drawn, because it has no text. Counts and cache of a Frozen copy do not learn the drawn
// tokens.
func (w *Worker) Sample(s *Stream, sampler Drawer, yield func(Token) bool) {
	w.EndWord(s, nil)
	if s.frozen && s.Cache != nil && s.held == nil {
		s.held = &held{marking: marking{marks: make([]int32, len(s.Pending), s.Settings.Chunk)}}
	}
	how := Lesson{drawn: s.frozen}
	tok, logProbs := w.model.Tokenizer, w.room()
	for more := true; more; {
		w.resume(s)
		last := len(s.Pending)
		w.extend(s, undrawn)
		w.targets = append(w.targets[:0], s.Pending...)
		w.setOut(s, how)
		w.distribution(s, last, logProbs)
		t := Token{ID: draw(sampler, logProbs, tok.Unknown()), LogProbs: logProbs}
		w.spelt = tok.Spell(w.spelt[:0], s.Before(), t.ID)
		if t.Text = w.spelt; s.Text.Space > 0 && t.Text[0] == ' ' {
			t.Text = t.Text[1:] // the text already ends with white space
		}
		t.Size = s.Text.Size() + int64(len(t.Text))
		w.setToken(t.ID, t.Size, s.Text.Chars+int64(tok.Chars(t.Text)))
		w.Commit(s, w.scores(s, t.Text, how, nil))
		w.Settle(s)
		more = yield(t)
	}
}

// draw draws a token, but never the token for unknown words, whose ID is parameter unknown; -1
// means that there is none.
func draw(sampler Drawer, logProbs []float32, unknown int32) int32 {
	if unknown < 0 {
		return sampler.Next(logProbs)
	}
	kept := logProbs[unknown]
	logProbs[unknown] = float32(math.Inf(-1))
	id := sampler.Next(logProbs)
	logProbs[unknown] = kept
	return id
}

// EndWord completes and feeds the pending word, as if a space followed. The space does not become
// part of the text. EndWord also feeds complete tokens that did not fit into the last chunk. If
// visit is not nil, it receives the tokens, as in Read.
func (w *Worker) EndWord(s *Stream, visit func(Token)) {
	ended := s.Text.Due() // true if white space after the word is already part of the text
	end := space
	if ended {
		end = nil
	}
	for ; s.MidWord(); end = nil {
		scores := w.Score(s, end)
		if visit != nil {
			w.Tell(s, scores, visit)
		}
		if !ended && !w.text.Due() {
			w.text = tokenizer.Pending{Word: w.text.Word[:0]}
		}
		w.Commit(s, scores)
		w.Settle(s)
	}
}

// MidWord reports whether the stream's text ends in a word, or with tokens that did not fit into
// the last chunk.
func (s *Stream) MidWord() bool { return s.Text.Due() || len(s.Text.Word) > 0 }

var space = []byte{' '}
