package stream

import "github.com/lmserve/lmserve/internal/lines"

// Score scores the tokens that are complete in the next bytes of the stream, as many as the chunk
// has room for, and does not change the stream: Commit accepts them. It reads the text up to the
// byte by which the last token is complete that there is room for, else all of it: Scores.Text.
// What is scored, and what is pending then, do not depend on the pieces in which the text comes.
func (w *Worker) Score(s *Stream, text []byte) Scores {
	w.resume(s)
	read := w.read(s, text)
	return w.predict(s, text[:read])
}

// read makes tokens of the text behind the stream's, as many as the chunk has room for, and returns
// how many bytes it has read.
func (w *Worker) read(s *Stream, text []byte) int {
	w.tokens.Reset()
	w.falls = w.falls[:0]
	w.text.CopyFrom(&s.Text)
	rest := text
	for range s.Room() {
		rest = w.model.Tokenizer.Next(&w.tokens, &w.text, rest, 1)
		if len(w.tokens.IDs) == len(w.falls) {
			break
		}
		w.falls = append(w.falls, max(0, len(text)-len(rest)-1))
	}
	return len(text) - len(rest)
}

// predict scores w.tokens, which the text completes, behind what the segments hold.
func (w *Worker) predict(s *Stream, text []byte) Scores {
	w.extend(s, w.tokens.IDs)
	w.at, w.baseAt = place{}, place{} // until Commit the segments run ahead of the stream
	return w.scores(s, text)
}

// scores are those of w.tokens, which the text completes, and which the segments were extended for.
func (w *Worker) scores(s *Stream, text []byte) Scores {
	ids := w.tokens.IDs
	scores := Scores{
		Text: text, Tokens: &w.tokens, NLL: w.nll[:len(ids)], falls: w.falls, pending: &w.text,
	}
	if s.Cache != nil {
		w.targets = append(append(w.targets[:0], s.Pending...), ids...)
	}
	step := w.step(s)
	switch {
	case s.Companion != nil:
		scores.Network = w.netNLL[:len(ids)]
		w.mixed(s, scores.NLL, scores.Network)
	case s.Cache != nil:
		step.Score(nil, ids, scores.NLL)
		if s.Settings.Method != Cache {
			scores.Network = append(w.netNLL[:0], scores.NLL...)
		}
		s.Cache.Mix(w.Exec, w.seg.Hidden(), w.targets, scores.NLL)
	default:
		step.Score(nil, ids, scores.NLL)
	}
	if s.Settings.Baseline {
		scores.Baseline = w.baseNLL[:len(ids)]
		baseline := w.baseline(s)
		baseline.Score(nil, ids, scores.Baseline)
	}
	return scores
}

// Commit accepts the text that Score has just scored. It moves no weights: Settle does, once the
// chunk is full.
func (w *Worker) Commit(s *Stream, scores Scores) { w.CommitAs(s, scores, Lesson{}, nil) }

// CommitAs is Commit for a text that is learnt in some way. It tells each, if not nil, of every
// line that ends in the text, if the stream makes lines of it. A line is valid until each returns.
func (w *Worker) CommitAs(s *Stream, scores Scores, how Lesson, each func(*lines.Line)) {
	s.beginLines()
	if s.lines != nil {
		addLines(s.lines, s.Offset(), scores, each)
	}
	if how.ByLine {
		s.holdLines()
	}
	if s.held != nil {
		s.held.mark(scores, how)
	}
	w.accept(s)
	s.Tally, s.Baseline = s.After(scores)
	s.Pending = append(s.Pending, scores.Tokens.IDs...)
	s.Text.CopyFrom(scores.pending)
	w.hold(s, place{s.id, s.Step})
}

// PreviewLines tells each of every line that ends in a text that was scored and is not accepted
// yet, as CommitAs will. A line is valid until each returns.
func (w *Worker) PreviewLines(s *Stream, scores Scores, each func(*lines.Line)) {
	s.beginLines()
	if s.lines == nil {
		return
	}
	if w.ahead == nil {
		w.ahead = new(lines.Meter)
	}
	w.ahead.CopyFrom(s.lines)
	addLines(w.ahead, s.Offset(), scores, each)
}
