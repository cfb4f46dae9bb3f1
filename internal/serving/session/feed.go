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

// feeder is a request with the exclusive right to feed a session.
type feeder struct {
	reports
	admitted bool
	entered  bool // a shutdown waits for the whole request
	// maxWait limits how long the first chunk waits for the recovery of the session's state; 0
	// means no limit.
	maxWait time.Duration
	// The text may interrupt a delivery. newline is 1 if the text begins with a newline that ends
	// the session's last line, else 0.
	interrupts bool
	newline    int
	given      *stream.Lesson // how to learn the rest of the text; if nil, the options say how
	update     *Update        // an update that the caller still gets; nil if there is none
}

func noChunks(Chunk) error { return nil }

// beginFeeding gives a request the exclusive right to feed a session, until the caller calls end.
// The request waits for this right for at most wait; then the error is ErrBusy. If other servers
// may have written to the session, beginFeeding reads the session's offset from the store.
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

// body feeds the bytes of a request body as they arrive. It does not wait until a chunk is full. If
// the bytes of a whole chunk have arrived, it feeds them at once.
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
		_, _ = r.Discard(n) // cannot fail: these bytes are buffered
	}
}

// enter makes a shutdown wait until the caller calls leave.
func (f *feeder) enter() (leave func(), err error) {
	if f.entered {
		return func() {}, nil
	}
	return f.engine.life.Leave, f.engine.life.Enter()
}

// piece feeds a piece of text, and then reports the update of the fast weights, if there was one. A
// shutdown waits until the piece is fed.
func (f *feeder) piece(ctx context.Context, text []byte) (n int, err error) {
	leave, err := f.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
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

// chunk feeds the first part of the text, up to the end of the current chunk. It scores this part
// with the old state, appends it to the log, and reports the scores. If the chunk is full, chunk
// then updates the fast weights, even if the report fails. The state does not change before the
// text is in the log.
//
// chunk returns the number of bytes fed. The result 0 without an error means that the session must
// be opened again.
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
	defer s.keepIfDueLocked() // writes a snapshot if one is due, after the worker was released
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
	if err := f.interruptLocked(ctx, l); err != nil {
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
	if f.given == nil { // text copied from another session was reported there
		f.tell(&c)
	}
	c.Elapsed = time.Since(begun)
	s.watchers.tellChunk(&c, f.want, c.end()-int64(len(scores.Text)))
	defer func() { // runs even if the report fails
		f.settleLocked(ctx, l.Worker())
		s.publishLocked()
	}()
	own := c.only(f.options.detail())
	err = l.Yield(func() error { return f.emit(own) }, yieldWait)
	phaseSince(ctx, e.observer, PhaseReport, begun.Add(c.Elapsed))
	return len(scores.Text), err
}

// open opens the session and waits for a worker. Only the request's first call ends when the client
// disconnects. Later, the accepted text is fed in any case.
func (f *feeder) open(ctx context.Context) (*scheduler.Lease, error) {
	if !f.admitted {
		defer f.options.attend()()
	}
	return f.engine.openWithWorker(ctx, f.s, &f.admitted, f.maxWait)
}

// settleLocked learns from the chunk if the chunk is full, and stores the update for the next
// report.
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

// watchLinesLocked makes the session report lines or records if the request needs them. It does
// nothing if the session already reports what the request needs. Otherwise it first stores in the
// head at which offset the lines begin. A recovery begins the lines at that offset. The head also
// says whether text may be learned by lines. During the write, other sessions can use the worker.
//
// If too little memory is free, the session's state is dropped and ready is false. Otherwise the
// state would keep memory that other sessions wait for.
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
	if !ready {
		s.giveUpLocked()
		return false, nil
	}
	next.watch(s.stream)
	return true, nil
}

// recordSizeMax returns the largest size that the record of a text can have; see recordSize.
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

// acceptLocked scores the text that fits into the chunk, reserves memory for the text's record, and
// appends the record to the log. During the append, the worker computes the gradient of a full
// chunk. Then other sessions can use the worker. If a score is not a finite number, the session is
// marked as unusable.
func (f *feeder) acceptLocked(
	ctx context.Context, l *scheduler.Lease, text []byte,
) (scores stream.Scores, err error) {
	s, begun := f.s, time.Now()
	scores = f.score(l.Worker(), text)
	text = scores.Text
	how := stream.Lesson{ByLine: scores.Lesson.ByLine, Skipped: slices.Clone(scores.Lesson.Skipped)}
	scored := phaseSince(ctx, f.engine.observer, PhaseForward, begun)
	s.replayCost += scored.Sub(begun)
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
			s.markUnusableLocked(fmt.Errorf("the text from offset %d on gives a total of %v "+
				"bits, a baseline of %v bits and a root mean square of the fast weights of %v, "+
				"expected finite numbers",
				s.stream.Offset(), r.Bits, r.Baseline, rms))
	}
	if err := f.engine.chargeRecords(s, recordSize(&r), 1); err != nil {
		return scores, err
	}
	// These copies are needed because the append may drop s.stream, after a claim by another
	// server.
	st, at := s.stream, s.stream.Offset()
	appended := make(chan error, 1)
	go func() {
		err := s.appendLocked(ctx, at, r)
		phaseSince(ctx, f.engine.observer, PhaseCommit, scored)
		appended <- err
	}()
	took := f.foresee(ctx, l.Worker(), st, scores)
	err = l.Yield(func() error { return <-appended }, yieldWait)
	s.replayCost += took
	switch {
	case err != nil:
		s.memory.Refund(textBytes(f.engine.store, recordSize(&r), 1))
	case l.Lost():
		// another session has used the worker, so the same scores are computed again
		scores = l.Worker().ScoreAs(s.stream, text, how)
	}
	return scores, err
}

// foresee computes the gradient early if the text fills the chunk. It returns the time of this
// computation. If the text is not accepted, the gradient is dropped.
func (f *feeder) foresee(
	ctx context.Context, w *stream.Worker, st *stream.Stream, scores stream.Scores,
) time.Duration {
	begun := time.Now()
	if !w.Foresee(st, scores) {
		return 0
	}
	return phaseSince(ctx, f.engine.observer, PhaseBackward, begun).Sub(begun)
}

// score scores a text to be learned. If the request learns by lines, score excludes strange lines
// and too long lines from learning; see skips.
func (f *feeder) score(w *stream.Worker, text []byte) stream.Scores {
	switch {
	case f.given != nil:
		return w.ScoreAs(f.s.stream, text, *f.given)
	case f.options.Learn == LearnUnflagged:
		return w.ScoreLines(f.s.stream, text, f.skips)
	}
	return w.Score(f.s.stream, text)
}

// skips reports whether a line is excluded from learning.
func (f *feeder) skips(l *lines.Line) bool {
	return l.Warm() && l.P <= f.options.Threshold || l.Bytes > stream.HeldMax
}

// restOfLines reports the unfinished line or record at the end of the fed text. If the session's
// state is not in memory, the request waits for its recovery.
func (f *feeder) restOfLines(ctx context.Context) error {
	if !f.options.Lines || f.accepted == 0 {
		return nil
	}
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	open := func() error { return f.s.open(ctx, 0) }
	if err := f.engine.waiting.wait(f.s.Owner, &f.admitted, open); err != nil {
		return err
	}
	defer f.s.unlock()
	f.lineUnderWay(f.s.stream)
	return nil
}
