package session

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// feeder is a request that feeds a session. It holds the session's feeding lock.
type feeder struct {
	reports
	admitted bool // the request has already waited for a worker
	// maxWait is how long the first chunk waits for the recovery of the session's state; 0 means
	// without limit.
	maxWait time.Duration
	given   *stream.Lesson // how to learn the rest of the text; nil if the options decide
	update  *Update        // the update not yet reported to the caller, or nil
}

func noChunks(Chunk) error { return nil }

// beginFeeding makes a request the only one that feeds a session, until end is called. It waits for
// its turn for at most wait; then the error is ErrBusy. If other servers may have written to the
// session, it reads the session's offset from the store.
func (e *engine) beginFeeding(
	ctx context.Context, s *session, wait time.Duration,
) (end func(), err error) {
	begun := time.Now()
	err = s.takeTurn(ctx, wait)
	phaseSince(ctx, e.observer, PhaseTurn, begun)
	if err != nil {
		return nil, err
	}
	end = func() { <-s.feeding }
	if err := s.hold(ctx); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// body scores the bytes that have arrived, and does not wait until a chunk is full. So a slow body
// is scored as it arrives, and a fast one in full chunks.
func (f *feeder) body(ctx context.Context, body io.Reader) error {
	r := bufio.NewReaderSize(body, readBufferBytes)
	for {
		if _, err := r.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return &BodyError{Offset: f.s.seen().offset, Err: err}
		}
		text, _ := r.Peek(r.Buffered())
		n, err := f.piece(ctx, text)
		if err != nil {
			return err
		}
		_, _ = r.Discard(n) // the bytes are in the buffer
	}
}

// piece feeds text in one operation that a drain waits for.
func (f *feeder) piece(ctx context.Context, text []byte) (n int, err error) {
	if err := f.engine.life.Enter(); err != nil {
		return 0, err
	}
	defer f.engine.life.Leave()
	return f.told(ctx, text)
}

// told feeds a chunk, and then reports the update.
func (f *feeder) told(ctx context.Context, text []byte) (n int, err error) {
	if n, err = f.chunk(ctx, text); err != nil || f.update == nil {
		return n, err
	}
	update := *f.update
	f.update = nil
	return n, f.options.Updated(update)
}

func (f *feeder) all(ctx context.Context, text []byte) error {
	for len(text) > 0 {
		n, err := f.chunk(ctx, text)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// chunk feeds the part of the text that fits the chunk. The order is: score with the old state,
// append to the log, accept, report. For a full chunk, backward and update follow. Nothing changes
// before the log has the text. After that, all remaining steps are done. It returns the number of
// bytes fed, or 0 without an error if the session must be opened again.
func (f *feeder) chunk(ctx context.Context, text []byte) (n int, err error) {
	begun, e, s := time.Now(), f.engine, f.s
	f.want = f.options.detail().and(s.watchers.want())
	all := len(text)
	text = text[:min(len(text), e.pieceMax(s))]
	if err := e.diskFor(s, f.recordSizeMax(text), 1); err != nil {
		return 0, err
	}
	l, err := f.open(ctx)
	if err != nil {
		return 0, err
	}
	defer s.unlock()
	defer s.keepIfDueLocked() // runs between two chunks, and without a worker
	defer func() {
		if n < all && err == nil {
			l.ReleaseSoon()
		} else {
			l.Release()
		}
	}()
	if ready, err := f.watchLinesLocked(ctx, l); err != nil || !ready {
		return 0, err
	}
	f.maxWait = 0
	if text, err = e.fit(s, text); err != nil {
		return 0, err
	}
	scores, err := f.acceptLocked(ctx, l, text)
	if err != nil {
		return 0, err
	}
	c := f.report(l.Worker(), s.stream, scores)
	l.Worker().CommitLines(s.stream, scores, f.observedLines(f.takeLines(&c, scores.Lesson)))
	if f.given != nil {
		*f.given = f.given.From(scores.Text, len(scores.Text))
	}
	s.publishLocked()
	e.grown(s)
	c.Total = s.account(s.stream.Tally, s.stream.Baseline)
	c.Complete, c.ByLine = s.stream.Room() == 0, scores.Lesson.ByLine
	if f.given == nil { // copied text was reported by the session that it is from
		f.tell(&c)
	}
	c.Elapsed = time.Since(begun)
	s.watchers.tellChunk(&c, f.want, c.end()-int64(len(scores.Text)))
	defer func() { // even if the report fails
		f.settleLocked(ctx, l.Worker())
		s.publishLocked()
	}()
	own := c.only(f.options.detail())
	err = l.Yield(func() error { return f.emit(own) }, yieldWait)
	phaseSince(ctx, e.observer, PhaseReport, begun.Add(c.Elapsed))
	return len(scores.Text), err
}

// open is engine.openWithWorker. Only the first call ends if the client leaves: accepted text is
// fed in any case.
func (f *feeder) open(ctx context.Context) (*scheduler.Lease, error) {
	if !f.admitted {
		defer f.options.attend()()
	}
	return f.engine.openWithWorker(ctx, f.s, &f.admitted, f.maxWait)
}

// settleLocked ends the chunk if it is full, and records the update for the report.
func (f *feeder) settleLocked(ctx context.Context, w *stream.Worker) {
	s := f.s
	if s.stream.Room() > 0 {
		return
	}
	settled, norms, took := s.settleLocked(w, f.want.updates)
	tellSettled(ctx, f.engine.observer, settled)
	if norms == nil {
		return
	}
	update := Update{
		Offset: s.stream.Tally.Bytes, Step: s.stream.Step - 1, Updates: s.stream.Updates(),
		Written: int64(s.stream.Written), FastRMS: s.rms, Branches: norms, Elapsed: took,
	}
	s.watchers.tellUpdate(&update, s.stream.Offset())
	if f.options.Updated != nil {
		f.update = &update
	}
}

// watchLinesLocked begins lines or records of the session's text if the request asks for them. It
// does nothing if the session has them already, by the same rules. It writes their offset to the
// head before more text follows, so that a recovery begins them at the same place. The head also
// says whether text may be learned by lines. During the write, the worker is free for other
// sessions.
//
// If there is no free memory, the session is dropped and ready is false: a session that waits for
// memory must not hold memory that others wait for.
func (f *feeder) watchLinesLocked(ctx context.Context, l *scheduler.Lease) (ready bool, err error) {
	s := f.s
	if err := s.checkTrouble(f.options); err != nil {
		return false, err
	}
	next := s.watching(f.options, s.stream.Offset())
	all := next.stateBytes(s.model.Model)
	more := all - s.stateBytes(s.model.Model)
	if more == 0 && next.Records == s.Records {
		return true, nil
	}
	if err := s.memory.Fits(all); err != nil {
		return false, memoryError(err)
	}
	err = l.Yield(func() (err error) {
		changed, err := s.memory.Try(more)
		if err != nil {
			return memoryError(err)
		}
		ready = changed == nil
		err = s.setHeadLocked(ctx, &next)
		if err != nil && ready {
			s.memory.Return(more)
		}
		return err
	}, yieldWait)
	if err != nil {
		return false, err
	}
	s.noteHeadLocked(&next)
	if !ready {
		s.giveUpLocked()
		return false, nil
	}
	next.watch(s.stream)
	return true, nil
}

// recordSizeMax returns the largest size of the record of a text; see recordSize.
func (f *feeder) recordSizeMax(text []byte) int {
	r := storage.Record{Text: text}
	if f.options.Learn == LearnUnflagged {
		r.Skipped = make([]uint16, bytes.Count(text, []byte{'\n'}))
	}
	if f.s.model.OfWords() {
		r.Words = new(storage.Words)
	}
	return recordSize(&r)
}

// acceptLocked scores the text that fits the chunk, reserves memory for its record and appends it.
// While the disk works, the worker computes the gradient of a full chunk, and is then released.
// Scores that are not finite make the session unusable.
func (f *feeder) acceptLocked(
	ctx context.Context, l *scheduler.Lease, text []byte,
) (scores stream.Scores, err error) {
	s, begun := f.s, time.Now()
	scores = f.score(l.Worker(), text)
	text = scores.Text
	how := stream.Lesson{ByLine: scores.Lesson.ByLine, Skipped: slices.Clone(scores.Lesson.Skipped)}
	scored := phaseSince(ctx, f.engine.observer, PhaseForward, begun)
	s.computedLocked(scored.Sub(begun))
	r := storage.Record{
		UnixMS: f.engine.clock.now().UnixMilli(), HasBaseline: s.Settings.Baseline, Text: text,
		ByLine: how.ByLine, Skipped: how.Skipped,
	}
	tally, baseline := s.stream.After(scores)
	setTotals(&r, f.s.model.OfWords(), tally, baseline)
	rms := s.rms
	if scores.Diverged || s.stream.ResetInChunk() {
		rms = 0
	}
	if !finite(r.Bits, r.Baseline, rms) {
		return scores,
			s.markUnusableLocked(fmt.Errorf("the text from offset %d on gives totals of %v and "+
				"%v bits (root mean square of the fast weights: %v), expected finite numbers",
				s.stream.Offset(), r.Bits, r.Baseline, rms))
	}
	if err := f.engine.chargeRecords(s, recordSize(&r), 1); err != nil {
		return scores, err
	}
	// Both are kept here, because an append that finds the session claimed by another server drops
	// the session's stream.
	st, at := s.stream, s.stream.Offset()
	appended := make(chan error, 1)
	go func() {
		err := s.appendLocked(ctx, at, r)
		phaseSince(ctx, f.engine.observer, PhaseCommit, scored)
		appended <- err
	}()
	took := f.foresee(ctx, l.Worker(), st, scores)
	err = l.Yield(func() error { return <-appended }, yieldWait)
	s.computedLocked(took)
	switch {
	case err != nil:
		f.engine.refund(s, recordSize(&r))
	case l.Lost():
		scores = l.Worker().ScoreAs(s.stream, text, how) // the result is bit-identical
	}
	return scores, err
}

// foresee computes the first part of the update at the chunk's end, if the text fills the chunk. It
// returns the time that took. If the text is not accepted, the result is dropped.
func (f *feeder) foresee(
	ctx context.Context, w *stream.Worker, st *stream.Stream, scores stream.Scores,
) time.Duration {
	begun := time.Now()
	if !w.Foresee(st, scores) {
		return 0
	}
	return phaseSince(ctx, f.engine.observer, PhaseBackward, begun).Sub(begun)
}

// score scores a text that is learned as the request asks. When it learns by lines, it skips lines
// above the threshold of surprise and lines that are too long.
func (f *feeder) score(w *stream.Worker, text []byte) stream.Scores {
	switch {
	case f.given != nil:
		return w.ScoreAs(f.s.stream, text, *f.given)
	case f.options.Learn == LearnUnflagged:
		return w.ScoreLines(f.s.stream, text, f.skips)
	}
	return w.Score(f.s.stream, text)
}

// skips reports whether a line is fed but not learned.
func (f *feeder) skips(l *lines.Line) bool {
	return l.Warm() && l.P <= f.options.Threshold || l.Bytes > stream.HeldMax
}

// restOfLines reports the unfinished line at the end of the fed text. If the state was dropped, the
// request waits for its recovery as a chunk does.
func (f *feeder) restOfLines(ctx context.Context) error {
	if !f.options.Lines || f.accepted == 0 {
		return nil
	}
	if err := f.engine.life.Enter(); err != nil {
		return err
	}
	defer f.engine.life.Leave()
	open := func() error { return f.s.open(ctx, 0) }
	if err := f.engine.waiting.wait(f.s.Owner, &f.admitted, open); err != nil {
		return err
	}
	defer f.s.unlock()
	f.lineUnderWay(f.s.stream)
	return nil
}
