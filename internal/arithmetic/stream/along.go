package stream

import (
	"bytes"
	"sort"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// setOut resets w.along to the stream's current state, before new text is scored.
func (w *Worker) setOut(s *Stream, how Lesson) {
	a := &w.along
	*a = along{companion: s.Companion, marking: marking{marks: a.marks[:0]}}
	switch {
	case s.held != nil:
		a.marks, a.marking.line = append(a.marks, s.held.marks...), s.held.line
	case how.ByLine:
		a.take(len(s.Pending), tokenLearnt)
	}
	if s.Cache != nil {
		a.cached = s.Cache.Len
	}
	a.begun = a.marking.line[lineBytes] == 0
	if a.companion == nil {
		return
	}
	if !how.ByLine && a.marking.line[lineBytes] > HeldMax {
		a.companion, a.back = s.held.companion, true // the open line is too long to be learned
	}
	w.counts.Begin(a.companion)
	a.line = w.counts.Mark(a.companion)
}

// follow divides a text into parts and calls visit, which must score the tokens of each part. If
// how.ByLine is set, a part lies within one line. follow then skips the lines in how.Skipped and
// those for which skip returns true; skip may be nil. The returned Lesson lists all skipped lines.
func (w *Worker) follow(
	s *Stream, scores *Scores, how Lesson, skip func(*lines.Line) bool, visit func(from, to int),
) Lesson {
	w.setOut(s, how)
	if !how.ByLine {
		visit(0, len(scores.NLL))
		w.along.learn()
		switch {
		case how.drawn && s.Cache != nil:
			w.along.take(len(scores.NLL), tokenSkipped)
		case s.held != nil:
			w.along.take(len(scores.NLL), tokenLearnt)
		}
		return Lesson{drawn: how.drawn}
	}
	if skip != nil {
		w.lookAhead(s)
	}
	given, ends, token := how.Skipped, uint16(0), 0
	w.skipped = w.skipped[:0]
	for from, to := 0, 0; from < len(scores.Text); from = to {
		to = from + w.along.part(scores.Text[from:])
		next := token + sort.SearchInts(scores.falls[token:], to)
		visit(token, next)
		skips := false
		if skip != nil {
			skips = w.skips(scores, from, to, skip)
		}
		w.takeIn(s, next-token, to-from)
		token = next
		if scores.Text[to-1] != '\n' {
			continue
		}
		if len(given) > 0 && given[0] == ends {
			given, skips = given[1:], true
		}
		if skips {
			w.skipped = append(w.skipped, ends)
		}
		w.endLine(s, skips)
		ends++
	}
	return Lesson{ByLine: true, Skipped: w.skipped}
}

// part returns the number of bytes that text, which must not be empty, adds to the open line. The
// number is at most what HeldMax leaves, but at least 1.
func (a *along) part(text []byte) int {
	n := len(text)
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		n = end + 1
	}
	return min(n, max(1, HeldMax-int(a.marking.line[lineBytes])))
}

// lookAhead prepares w.ahead, a copy of the stream's line meter. The copy reads lines before the
// stream accepts them.
func (w *Worker) lookAhead(s *Stream) {
	if w.ahead == nil {
		w.ahead = new(lines.Meter)
	}
	s.beginLines()
	w.ahead.CopyFrom(s.lines)
	w.aheadFrom = s.Offset() - s.lines.Bytes()
}

// skips feeds part of a scored text to the meter w.ahead. It reports whether a line ends in the
// part and skip returns true for that line.
func (w *Worker) skips(
	scores *Scores, from, to int, skip func(*lines.Line) bool,
) (skips bool) {
	addLines(w.ahead, w.aheadFrom, *scores, from, to, func(l *lines.Line) { skips = skip(l) })
	return skips
}

// learn marks the open line's undecided tokens as learned and begins a new line.
func (a *along) learn() {
	a.decide(tokenLearnt)
	a.marking.line[lineBytes], a.marking.line[lineCached] = 0, 0
}

// takeIn adds tokens and bytes to the open line. Once the line exceeds HeldMax bytes, or has more
// tokens than the cache has room for, takeIn marks the line as not learned.
func (w *Worker) takeIn(s *Stream, tokens, bytes int) {
	a := &w.along
	a.take(tokens, tokenOpen)
	under := &a.marking.line[lineBytes]
	*under = min(*under+int32(bytes), HeldMax+1)
	if s.Cache != nil && int(a.marking.line[lineCached])+trailing(a.marks, tokenOpen) > cacheRoom {
		*under = HeldMax + 1
	}
	if *under > HeldMax {
		a.skip(s)
	}
}

// skip marks the open line's tokens as not learned and removes them from a.cached, the number of
// cached tokens after the scored text.
func (a *along) skip(s *Stream) {
	a.decide(tokenSkipped)
	if s.Cache != nil {
		a.cached -= int(a.marking.line[lineCached])
		a.marking.line[lineCached] = 0
	}
}

func (w *Worker) endLine(s *Stream, skips bool) {
	a := &w.along
	if skips = skips || a.marking.line[lineBytes] > HeldMax; skips {
		a.skip(s)
		w.takeBack(s)
	}
	a.learn()
	a.begun = true
	if a.companion != nil {
		a.line = w.counts.Mark(a.companion)
	}
}

// takeBack restores the companion to the beginning of the open line.
func (w *Worker) takeBack(s *Stream) {
	a := &w.along
	switch {
	case a.companion == nil:
	case a.begun:
		w.counts.Drop(a.companion, a.line)
	default:
		w.counts.Back(a.companion)
		a.companion, a.back = s.held.companion, true
		w.counts.Begin(a.companion)
	}
}

// stay restores the companion to its state before the new text, which is not accepted yet.
func (w *Worker) stay() {
	if w.along.companion != nil {
		w.counts.Back(w.along.companion)
	}
}

// arrive accepts the new text: it moves the companion, slopes, marks and cache from w.along to the
// stream.
func (w *Worker) arrive(s *Stream) {
	a := &w.along
	if s.Companion != nil {
		if a.back {
			s.Companion, s.held.companion = s.held.companion, s.Companion
		}
		w.counts.Forth(s.Companion)
	}
	if s.slopes != nil {
		s.slopes = append(s.slopes, w.slopes...)
	}
	if s.held == nil {
		return
	}
	s.held.marks, s.held.line = append(s.held.marks[:0], a.marks...), a.marking.line
	under := a.marking.line[lineBytes] > 0
	if under && a.begun && s.Companion != nil {
		s.held.companion.CopyFrom(s.Companion)
		w.counts.Drop(s.held.companion, a.line)
	}
	if s.Cache != nil {
		if s.Cache.Len = a.cached; s.held.line[lineCached] == 0 {
			s.Cache.Close()
		}
	}
}
