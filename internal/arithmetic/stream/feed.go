package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/tokenizer"
)

// FeedAs scores, accepts and settles the next piece of a text. The lesson says how the stream
// learns the piece. FeedAs reads no further than the end of the chunk, and returns the number of
// bytes read.
func (w *Worker) FeedAs(s *Stream, text []byte, how Lesson) (read int) {
	scores := w.ScoreAs(s, text, how)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}

// Feed scores, accepts and settles text of any length. It is for callers that keep no log of the
// text. visit, if not nil, receives the scores of every piece, before any update that the piece
// causes.
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

// FeedLines is Feed for a stream that divides its text into lines. It calls the function each with
// every line that ends.
func (w *Worker) FeedLines(s *Stream, text []byte, each func(*lines.Line)) {
	for len(text) > 0 {
		scores := w.Score(s, text)
		text = text[len(scores.Text):]
		w.CommitLines(s, scores, each)
		w.Settle(s)
	}
}

// End feeds the tokens that the end of the text completes, as Feed does: the pending word and the
// end of the last line. If the model's tokens are bytes, or the text ends with a newline, there are
// no such tokens. Text that is fed later begins a new line.
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

// scoreToken scores a token that the end of the text completes. After that, no text is pending.
func (w *Worker) scoreToken(s *Stream, id int32, size, chars int64) Scores {
	w.resume(s)
	w.setToken(id, size, chars)
	return w.predict(s, nil, Lesson{}, nil)
}

// Read feeds the next piece of a text, at most as much as completes the chunk. It calls visit with
// each token, in order, and with the distribution that scored the token. It returns the number of
// bytes read.
func (w *Worker) Read(s *Stream, text []byte, visit func(Token)) (read int) {
	scores := w.Score(s, text)
	w.Tell(s, scores, visit)
	w.Commit(s, scores)
	w.Settle(s)
	return len(scores.Text)
}
