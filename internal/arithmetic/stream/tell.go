package stream

import "github.com/lmserve/lmserve/tokenizer"

// Token is a token that was read or sampled. Its slices are valid until the function that is told
// of it returns.
type Token struct {
	ID       int32
	Size     int64     // bytes of the text that it stands for, some of which may have come before
	Text     []byte    // of a sampled token: what it adds to the text, with the space before a word
	LogProbs []float32 // of all tokens of the vocabulary [V], in nats, before sampling cuts them
	Baseline []float32 // of a token that was read: the same under the static model; nil without one
}

// Tell tells visit of each of the tokens that Score has just scored, in order, with the
// distribution that the token was scored under. It comes before Commit, and changes nothing.
func (w *Worker) Tell(s *Stream, scores Scores, visit func(Token)) {
	logProbs, baseline := w.room(), []float32(nil)
	if s.Settings.Baseline {
		baseline = w.baseRoom()
	}
	w.follow(s, &scores, scores.Lesson, nil, func(from, to int) {
		for i := from; i < to; i++ {
			row := len(s.Pending) + i
			w.distribution(s, row, logProbs)
			if s.Companion != nil {
				w.counts.Score(w.along.companion, w.networks, byte(w.tokens.IDs[i]))
			}
			if baseline != nil {
				w.base.LogProbs(row, 0, baseline)
			}
			visit(Token{
				ID: w.tokens.IDs[i], Size: w.tokens.Sizes[i], LogProbs: logProbs,
				Baseline: baseline,
			})
		}
	})
	w.stay()
}

// setToken makes w.tokens one token.
func (w *Worker) setToken(id int32, size, chars int64) {
	w.tokens.Reset()
	w.tokens.IDs = append(w.tokens.IDs, id)
	w.tokens.Sizes, w.tokens.Chars = append(w.tokens.Sizes, size), append(w.tokens.Chars, chars)
	w.falls = append(w.falls[:0], 0)
	w.text = tokenizer.Pending{Word: w.text.Word[:0]}
}
