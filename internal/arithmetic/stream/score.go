package stream

import "github.com/lmserve/lmserve/internal/arithmetic/lines"

// Score scores the tokens that the next bytes of a text complete, up to the end of the chunk. The
// stream does not change; Commit accepts the tokens. Scores.Text is the part of the text that was
// read, at most to the byte that completes the chunk's last token. Scores and pending text do not
// depend on how the text is divided into pieces.
func (w *Worker) Score(s *Stream, text []byte) Scores { return w.ScoreAs(s, text, Lesson{}) }

// ScoreAs is like Score. Parameter how says how the stream learns the text after Commit.
func (w *Worker) ScoreAs(s *Stream, text []byte, how Lesson) Scores {
	read := w.begin(s, text)
	return w.predict(s, text[:read], how.Until(text, read), nil)
}

// ScoreLines is like Score, for a text that is learned by lines. It calls skip with every line that
// ends in the text, after scoring the line. Lines for which skip returns true are not learned. The
// stream must divide its text into lines. A line is valid until skip returns.
func (w *Worker) ScoreLines(s *Stream, text []byte, skip func(*lines.Line) bool) Scores {
	read := w.begin(s, text)
	return w.predict(s, text[:read], Lesson{ByLine: true}, skip)
}

func (w *Worker) begin(s *Stream, text []byte) (read int) {
	w.resume(s)
	return w.read(s, text, s.Room())
}

// read tokenizes a text that follows the stream's text, into at most room tokens. It returns the
// number of bytes read.
func (w *Worker) read(s *Stream, text []byte, room int) int {
	w.tokens.Reset()
	w.falls = w.falls[:0]
	w.text.CopyFrom(&s.Text)
	rest := text
	for range room {
		rest = w.model.Tokenizer.Next(&w.tokens, &w.text, rest, 1)
		if len(w.tokens.IDs) == len(w.falls) {
			break
		}
		w.falls = append(w.falls, max(0, len(text)-len(rest)-1))
	}
	return len(text) - len(rest)
}

// predict scores w.tokens, the tokens that text completes, and appends them to the segments.
func (w *Worker) predict(
	s *Stream, text []byte, how Lesson, skip func(*lines.Line) bool,
) Scores {
	w.extend(s, w.tokens.IDs)
	w.at = place{} // until Commit, the segments contain more tokens than the stream
	if !w.together() && w.diverged(s) {
		w.resume(s)
		read := w.read(s, text[:w.falls[0]+1], s.Room())
		text, how = text[:read], how.Until(text, read)
		w.extend(s, w.tokens.IDs)
		w.at = place{}
	}
	return w.scores(s, text, how, skip)
}

// together reports whether one byte completes all of w.tokens, such as the parts of a word and the
// end of its line. These tokens must be accepted together, because no token is accepted without a
// byte of text.
func (w *Worker) together() bool {
	n := len(w.falls)
	return n == 0 || w.falls[0] == w.falls[n-1]
}

// scores returns the scores of w.tokens. The parameter `text` completes these tokens. The segments
// must already contain these tokens.
func (w *Worker) scores(
	s *Stream, text []byte, how Lesson, skip func(*lines.Line) bool,
) Scores {
	ids := w.tokens.IDs
	diverged := w.together() && w.diverged(s)
	scores := Scores{
		Text: text, Tokens: &w.tokens, NLL: w.nll[:len(ids)], Diverged: diverged,
		falls: w.falls, pending: &w.text,
	}
	if s.Cache != nil {
		w.targets = append(append(w.targets[:0], s.Pending...), ids...)
	}
	switch {
	case how.drawn:
		scores.NLL[0] = -w.logProbs[ids[0]]
	case s.Companion != nil:
		scores.Network = w.netNLL[:len(ids)]
	case s.Cache != nil && s.Settings.Method != Cache:
		w.network(s, scores.NLL)
		scores.Network = append(w.netNLL[:0], scores.NLL...)
	default:
		w.network(s, scores.NLL)
	}
	if s.Settings.Baseline {
		scores.Baseline = w.baseNLL[:len(ids)]
		w.base.NLL(len(s.Pending), ids, scores.Baseline)
	}
	w.slopes = w.slopes[:0]
	scores.Lesson = w.follow(s, &scores, how, skip, func(from, to int) {
		switch {
		case how.drawn && s.Companion != nil:
			w.counts.Pass(w.along.companion, byte(ids[0]), s.drawn)
		case how.drawn:
		case s.Companion != nil:
			w.mixed(s, from, to, &scores)
		case s.Cache != nil:
			w.mixCached(s, from, to, scores.NLL)
		}
	})
	w.stay()
	if diverged {
		bound(scores.NLL)
		if scores.Network != nil {
			bound(scores.Network)
		}
	}
	return scores
}

// network writes the network's costs of w.tokens to nll. If the stream may diverge, method diverged
// has already computed these costs.
func (w *Worker) network(s *Stream, nll []float32) {
	if w.model.Uniform {
		fill(nll, w.uniform())
		return
	}
	if s.mayDiverge() {
		copy(nll, w.losses)
		return
	}
	w.seg.NLL(len(s.Pending), w.tokens.IDs, nll)
}

// Commit accepts the text that was just scored. scores.Lesson says how the stream learns the text.
// Commit does not change the weights: Settle updates them once the chunk is full.
func (w *Worker) Commit(s *Stream, scores Scores) { w.CommitLines(s, scores, nil) }

// CommitLines is like Commit. If the stream makes lines, CommitLines also calls function `each`, if
// not nil, with every line that ends in the text. If the stream makes records, each receives a
// record before the line that begins the next record. Lines and records are valid during the call.
func (w *Worker) CommitLines(s *Stream, scores Scores, each func(*lines.Line)) {
	s.beginLines()
	if s.lines != nil {
		from := s.Offset() - s.lines.Bytes()
		addLines(s.lines, from, scores, 0, len(scores.Text), s.withRecords(each))
	}
	if scores.Lesson.ByLine {
		s.holdLines()
	}
	w.arrive(s)
	if scores.Lesson.drawn {
		s.drawn += uint64(len(scores.Text))
	}
	s.Tally, s.Baseline = s.After(scores)
	s.Pending = append(s.Pending, scores.Tokens.IDs...)
	s.Text.CopyFrom(scores.pending)
	w.at = place{s.id, s.Step}
	if scores.Diverged {
		s.reset()
		w.at = place{} // the segments contain activations of the old fast weights
	}
}
