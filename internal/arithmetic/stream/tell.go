package stream

import "github.com/lmserve/lmserve/tokenizer"

// Token is a token that was read or sampled. Its slices are valid only until the function that
// receives the Token returns.
type Token struct {
	ID       int32
	Size     int64     // size of the text in bytes, including bytes before the scored text
	Text     []byte    // text of a sampled token, with the space before a word
	LogProbs []float32 // log-probabilities [V] of the vocabulary in nats, before truncation
	// for a token that was read: the log-probabilities [V] under the static model, or nil
	Baseline []float32
}

// Tell calls visit for each token that Score has just scored, in order, with the distribution that
// scored the token. Call Tell before Commit. The stream does not change.
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

func (w *Worker) setToken(id int32, size, chars int64) {
	w.tokens.Reset()
	w.tokens.IDs = append(w.tokens.IDs, id)
	w.tokens.Sizes, w.tokens.Chars = append(w.tokens.Sizes, size), append(w.tokens.Chars, chars)
	w.falls = append(w.falls[:0], 0)
	w.text = tokenizer.Pending{Word: w.text.Word[:0]}
}
