package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/tokenizer"
)

// FeedAs scores text up to the end of the chunk, commits the scores and settles the stream.
// Parameter how says how the stream learns from the text. FeedAs returns the number of bytes read.
func (w *Worker) FeedAs(s *Stream, text []byte, how Lesson) (read int) {
	scores := w.ScoreAs(s, text, how)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}

// Feed scores, commits and settles text of any length, for callers that keep no log of the text. If
// visit is not nil, it receives the scores of each piece before the stream learns from the piece.
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

// FeedLines is like Feed, for a stream that divides its text into lines. Function `each` receives
// every line that ends.
func (w *Worker) FeedLines(s *Stream, text []byte, each func(*lines.Line)) {
	for len(text) > 0 {
		scores := w.Score(s, text)
		text = text[len(scores.Text):]
		w.CommitLines(s, scores, each)
		w.Settle(s)
	}
}

// End feeds the tokens that only the end of the text completes: the pending word and the end of the
// last line. If tokens are bytes, or the text ends with a newline, no such tokens exist. Text fed
// later begins a new line.
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

// scoreToken scores a token that the end of the text completes, and leaves no pending text.
func (w *Worker) scoreToken(s *Stream, id int32, size, chars int64) Scores {
	w.resume(s)
	w.setToken(id, size, chars)
	return w.predict(s, nil, Lesson{}, nil)
}

// Read feeds text up to the end of the chunk. It calls visit with each token, in order, and with
// the distribution that scored the token. It returns the number of bytes read.
func (w *Worker) Read(s *Stream, text []byte, visit func(Token)) (read int) {
	scores := w.Score(s, text)
	w.Tell(s, scores, visit)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}
