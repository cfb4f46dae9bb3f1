package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/tokenizer"
)

// FeedAs scores, accepts and settles the next piece of a text, as much as the chunk has room for,
// learnt in some way. It returns how many bytes it has read.
func (w *Worker) FeedAs(s *Stream, text []byte, how Lesson) (read int) {
	scores := w.ScoreAs(s, text, how)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}

// Feed scores, accepts and settles text of any length: the whole loop for
// callers that keep no log. visit, if not nil, sees every piece's scores
// before the update they cause.
func (w *Worker) Feed(s *Stream, text []byte, visit func(text []byte, scores Scores)) {
	for len(text) > 0 {
		scores := w.Score(s, text)
		text = text[len(scores.Text):]
		if visit != nil {
			visit(scores.Text, scores)
		}
		w.Commit(s, scores)
		w.Settle(s)
	}
}

// FeedLines is Feed of a stream that makes lines of its text, which tells each of every line.
func (w *Worker) FeedLines(s *Stream, text []byte, each func(*lines.Line)) {
	for len(text) > 0 {
		scores := w.Score(s, text)
		text = text[len(scores.Text):]
		w.CommitLines(s, scores, each)
		w.Settle(s)
	}
}

// End feeds the tokens that the end of the text completes, as Feed does: the word that is pending,
// and the end of the last line. There are none if the text ends with a line, nor in a text of
// bytes. Text that comes after it is another's.
func (w *Worker) End(s *Stream, visit func(text []byte, scores Scores)) {
	last, rest := tokenizer.NewTokens(2), tokenizer.Pending{}
	rest.CopyFrom(&s.Text)
	w.model.Tokenizer.End(&last, &rest)
	for i := range last.IDs {
		scores := w.scoreToken(s, last.IDs[i], last.Sizes[i], last.Chars[i])
		if visit != nil {
			visit(nil, scores)
		}
		w.Commit(s, scores)
		w.Settle(s)
	}
}

// scoreToken scores a token that no text has made. Nothing is pending behind it.
func (w *Worker) scoreToken(s *Stream, id int32, size, chars int64) Scores {
	w.resume(s)
	w.setToken(id, size, chars)
	return w.predict(s, nil, Lesson{}, nil)
}

// Read feeds the next piece of a text, as much as the chunk has room for, and tells visit of each
// of its tokens, in order, with the distribution that the token was scored under. It returns how
// many bytes it has read.
func (w *Worker) Read(s *Stream, text []byte, visit func(Token)) (read int) {
	scores := w.Score(s, text)
	w.Tell(s, scores, visit)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}
