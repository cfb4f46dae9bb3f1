package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/spool"
)

// dryRun is a request that scores a text as a continuation of the session's text, but learns
// nothing. It uses a frozen copy of the stream, which shares the fast weights. So the session
// accepts no other text during the dry run. To keep this time short, the dry run first receives the
// whole text, whose length is limited.
type dryRun struct {
	reports
	admitted bool
	blank    bool // the session exists only for this request and is not in the store
}

// receive writes a text of at most UnlearntBytesMax bytes to a temporary file. The error is a
// *TooLongError, a *BodyError at the session's offset, or ErrNoSpace.
func (r *dryRun) receive(body io.Reader) (*spool.Spool, error) {
	text, err := spool.Receive(io.LimitReader(body, UnlearntBytesMax+1))
	if failed := (*spool.ReadError)(nil); errors.As(err, &failed) {
		return nil, &BodyError{Offset: r.s.seen().offset, Err: failed.Err}
	}
	if err != nil {
		return nil, SpoolError(err)
	}
	bytes, err := text.Bytes()
	if err == nil && bytes > UnlearntBytesMax {
		err = &TooLongError{Max: UnlearntBytesMax}
	}
	if err != nil {
		text.Close()
		return nil, err
	}
	return text, nil
}

// run scores the text of a request that began at the given time. The error is an *OffsetError if
// offset is not nil and differs from the session's offset.
func (r *dryRun) run(
	ctx context.Context, text io.Reader, offset *int64, begun time.Time,
) error {
	maxWait := r.engine.maxWaitOf(r.options.Wait)
	if err := r.engine.openCurrent(ctx, r.s, &r.admitted, maxWait); err != nil {
		return err
	}
	defer r.s.unlock()
	defer r.finish(begun) // before other requests can feed the session
	if err := checkOffset(r.s, offset); err != nil {
		return err
	}
	if err := r.s.checkTrouble(r.options); err != nil {
		return err
	}
	st := r.s.stream.Reader()
	if next := r.s.watching(r.options, st.Offset()); r.options.Lines {
		next.watch(st)
	}
	return r.readLocked(ctx, st, text)
}

func (r *dryRun) readLocked(ctx context.Context, st *stream.Stream, text io.Reader) error {
	piece, have := make([]byte, r.engine.pieceMax(r.s)), 0
	for {
		limit := len(piece)
		if !r.s.model.OfWords() {
			limit = st.Room() // so that each piece ends at the border of a chunk
		}
		n, err := io.ReadFull(text, piece[have:limit])
		if have += n; have > 0 {
			read, err := r.pieceLocked(ctx, st, piece[:have])
			if err != nil {
				return err
			}
			have = copy(piece, piece[read:have])
		}
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case ended && have == 0:
			r.lineUnderWay(st)
			return nil
		case err != nil && !ended:
			return err
		}
	}
}

// pieceLocked scores the part of the text that fits into the current chunk, and returns the length
// of this part. It releases the worker before it reports the scores. A shutdown waits for the
// request.
func (r *dryRun) pieceLocked(
	ctx context.Context, st *stream.Stream, text []byte,
) (read int, err error) {
	begun := time.Now()
	l, err := r.workerLocked(ctx)
	if err != nil {
		return 0, err
	}
	before := st.Offset()
	c, err := r.scoreLocked(ctx, l.Worker(), st, text)
	l.Release()
	if err != nil {
		return 0, err
	}
	r.tell(&c)
	c.Elapsed = time.Since(begun)
	return int(st.Offset() - before), r.emit(c.only(r.want))
}

// workerLocked waits for a worker. It fails if the session was deleted or moved to another server.
func (r *dryRun) workerLocked(ctx context.Context) (*scheduler.Lease, error) {
	if err := r.s.alive(); err != nil {
		return nil, err
	}
	if !r.blank {
		if err := r.s.heldLocked(ctx); err != nil {
			return nil, err
		}
	}
	return r.engine.leaseLocked(ctx, r.s, &r.admitted)
}

// scoreLocked scores a text with the copy of the session's stream. If a score is not a finite
// number, the session is marked as unusable.
func (r *dryRun) scoreLocked(
	ctx context.Context, w *stream.Worker, st *stream.Stream, text []byte,
) (Chunk, error) {
	begun, at := time.Now(), st.Offset()
	scores := w.Score(st, text)
	phaseSince(ctx, r.engine.observer, PhaseForward, begun)
	c := r.report(w, st, scores)
	w.CommitLines(st, scores, r.takeLines(&c, scores.Lesson))
	c.Total = r.s.account(st.Tally, st.Baseline)
	tellSettled(ctx, r.engine.observer, w.Settle(st))
	if !finite(st.Tally.Bits, st.Baseline.Bits) {
		why := fmt.Errorf("scoring from offset %d on gives a total of bits that is not a finite "+
			"number", at)
		if r.blank { // a blank session: the model is broken, not the session
			return c, fmt.Errorf("session: %w", why)
		}
		return c, r.s.markUnusableLocked(why)
	}
	return c, nil
}
