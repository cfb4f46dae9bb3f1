package stream

import "github.com/lmserve/lmserve/tokenizer"

// Token is a token that was read or sampled. Its slices are valid until the function that
// receives it returns.
type Token struct {
	ID       int32
	Size     int64     // size of its text in bytes, including bytes before the scored text
	Text     []byte    // for a sampled token: its text, with the space before a word
	LogProbs []float32 // log-probabilities of the vocabulary [V], in nats, before truncation
	Baseline []float32 // for a token that was read: the same under the static model, or nil
}

// Tell calls visit with each token that Score has just scored, in order, and with the distribution
// that scored the token. Call it before Commit. It does not change the stream.
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

// setToken sets w.tokens to one token.
func (w *Worker) setToken(id int32, size, chars int64) {
	w.tokens.Reset()
	w.tokens.IDs = append(w.tokens.IDs, id)
	w.tokens.Sizes, w.tokens.Chars = append(w.tokens.Sizes, size), append(w.tokens.Chars, chars)
	w.falls = append(w.falls[:0], 0)
	w.text = tokenizer.Pending{Word: w.text.Word[:0]}
}
