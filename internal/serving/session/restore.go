package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/weights"
)

// restorable is the input of a recovery: the session's head, model, snapshots and log, and the
// workers.
type restorable struct {
	head      *head
	model     *model.Model
	snapshots snapshotReader
	log       logReader
	end       progress // offset and totals at the end of the log
	scheduler *scheduler.Scheduler
	job       scheduler.Job
	more      func(*restoration) error
	replayed  func(bytes int64)
	logError  func(error)
}

// restoration is the progress of a recovery: a stream between a snapshot and the end of the log.
type restoration struct {
	stream     *stream.Stream
	from       int64   // offset of the snapshot
	damaged    []int64 // offsets of newer, unreadable snapshots
	cause      error
	exact      bool  // whether the arithmetic is the log's, so that totals must be equal
	changed    *head // new head at the end of the log; nil if the arithmetic has not changed
	mismatched bool
	cost       time.Duration
}

// snapshotReader reads the snapshots of sessions; storage.Store implements it.
type snapshotReader interface {
	Snapshots(ctx context.Context, id string) ([]storage.Snapshot, error)
	ReadSnapshot(ctx context.Context, id string, at int64, read func(io.Reader) error) error
}

// logReader reads the logs of sessions; storage.Store implements it.
type logReader interface {
	Read(
		ctx context.Context, id string, from int64, visit func(at int64, r storage.Record) error,
	) error
}

// restore returns the stream at the end of a log. It reads the newest readable snapshot, and
// replays the log after the snapshot. With the log's arithmetic, the result is bit-identical to the
// original stream. restore needs no session and no lock.
//
// If the context ends or from.more returns an error, restore returns this error and the paused
// restoration. Another call with the parameter paused continues this restoration.
func restore(ctx context.Context, from *restorable, paused *restoration) (*restoration, error) {
	r, err := paused, error(nil)
	if r == nil {
		if r, err = from.newest(ctx); err != nil {
			return nil, err
		}
	}
	id, begun := from.head.ID, r.stream.Offset()
	err = from.replay(ctx, r, func(rec storage.Record) { from.compare(r, &rec) })
	end := r.stream.Offset()
	from.replayed(end - begun)
	var pause interrupted
	switch {
	case errors.As(err, &pause):
		return r, pause.error
	case errors.Is(err, storage.ErrRange):
		return nil, &UnusableError{ID: id, Err: errors.Join(fmt.Errorf(
			"no snapshot is readable, and the log does not begin at offset 0: %w", err), r.cause)}
	case err != nil && ctx.Err() != nil:
		return r, storeError("replaying session "+id, err)
	case err != nil:
		return nil, storeError("replaying session "+id, err)
	case end != from.end.offset:
		return nil, &UnusableError{ID: id, Err: fmt.Errorf("the session was recovered only up to "+
			"offset %d, expected %d",
			end, from.end.offset)}
	case !from.end.blind:
		from.adopt(r, from.end.tally, from.end.baseline)
	}
	if !r.exact {
		h := *from.head
		h.noteNumerics(numerics{From: end, Name: from.model.Arithmetic.Numerics()})
		r.changed = &h
	}
	return r, nil
}

// newest begins a restoration with the newest readable snapshot. If no snapshot is readable, it
// begins with an empty stream.
func (from *restorable) newest(ctx context.Context) (*restoration, error) {
	id, r := from.head.ID, new(restoration)
	kept, err := from.snapshots.Snapshots(ctx, id)
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		from.logError(fmt.Errorf("session: session %s: the snapshots cannot be used: %w", id, err))
		r.cause = err
	case err != nil:
		return nil, storeError("looking for snapshots of session "+id, err)
	}
	for n := len(kept) - 1; n >= 0 && r.stream == nil; n-- {
		at := kept[n].Offset
		r.stream, err = readSnapshot(ctx, from.model, from.snapshots, from.head, at)
		switch {
		case err == nil:
		case ctx.Err() != nil || !damaged(err):
			return nil, storeError("reading a snapshot of session "+id, err)
		default:
			from.logError(fmt.Errorf("session: session %s: the snapshot at offset %d cannot be "+
				"used and is skipped: %w", id, at, err))
			r.damaged, r.cause = append(r.damaged, at), cmp.Or(r.cause, err)
		}
	}
	if r.stream == nil {
		r.stream = from.head.emptyStream(from.model)
	}
	r.from = r.stream.Offset()
	log := from.head.numerics()
	r.exact = log.Name == from.model.Arithmetic.Numerics() && r.from >= log.From
	return r, nil
}

// snapshotLimits limit the memory for reading a snapshot, which may come from an uploaded archive.
// The limits allow a model with hundreds of layers and eight banks.
var snapshotLimits = weights.Limits{HeaderBytes: 4 << 20, Window: 8 << 20}

// readSnapshot returns the stream of a snapshot. If the snapshot is damaged, or does not fit the
// head or the model, damaged reports true for the error.
func readSnapshot(
	ctx context.Context, m *model.Model, kept snapshotReader, h *head, at int64,
) (st *stream.Stream, err error) {
	err = kept.ReadSnapshot(ctx, h.ID, at, func(r io.Reader) error {
		err := weights.Scan(r, snapshotLimits, func(f *weights.Stored) (err error) {
			st, err = h.restoreStream(m, f)
			if err == nil && st.Offset() != at {
				return fmt.Errorf("the snapshot's state is at offset %d, expected %d",
					st.Offset(), at)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			return damagedState{err}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (h *head) emptyStream(m *model.Model) *stream.Stream {
	st := stream.New(m, h.Settings)
	h.watch(st)
	return st
}

func (h *head) restoreStream(m *model.Model, f *weights.Stored) (*stream.Stream, error) {
	st, _, err := stream.Restore(m, h.Settings, f)
	if err != nil {
		return nil, err
	}
	if err := h.checkLines(st); err != nil {
		return nil, err
	}
	h.watch(st)
	return st, nil
}

// checkLines returns an error if a state and the head disagree about line ratings.
func (h *head) checkLines(st *stream.Stream) error {
	from, lines := st.LinesFrom()
	switch {
	case h.LinesFrom == nil && lines:
		return errors.New("the state has line ratings, expected none, because the head has no " +
			"lines_from")
	case lines && from != *h.LinesFrom:
		return fmt.Errorf("the state has line ratings from offset %d on, expected %d, the head's "+
			"lines_from", from, *h.LinesFrom)
	case h.LinesFrom != nil && !lines && st.Offset() > *h.LinesFrom:
		return fmt.Errorf("the state at offset %d has no line ratings, expected ratings from "+
			"offset %d on, the head's lines_from", st.Offset(), *h.LinesFrom)
	case lines && st.TroubleWords() != h.TroubleWords:
		return fmt.Errorf("the state has the trouble words %.80q, expected %.80q, the head's "+
			"trouble_words", st.TroubleWords(), h.TroubleWords)
	case st.LearnsByLine() && !h.ByLine:
		return errors.New("the state is learned by lines, but by_line is not true in the head")
	}
	return nil
}

// damagedState is the error of a snapshot that the store has read, but that is no state of the
// session.
type damagedState struct{ error }

func (e damagedState) Unwrap() error { return e.error }

// damaged reports whether a snapshot was not read because the snapshot is damaged. If so, the
// session continues without it. Otherwise the store failed, and reading can be tried again.
func damaged(err error) bool {
	return !errors.Is(err, storage.ErrUnavailable) &&
		(errors.Is(err, storage.ErrCorrupt) || errors.As(err, new(damagedState)))
}

// replay recomputes the log from the stream's offset on. It releases the worker after each chunk,
// so that requests do not wait long for a worker. It calls compare at the end of every record. The
// error has type interrupted if the computation was stopped; otherwise it is the store's error.
func (from *restorable) replay(
	ctx context.Context, r *restoration, compare func(storage.Record),
) error {
	begin := r.stream.Offset()
	return from.log.Read(ctx, from.head.ID, begin, func(at int64, rec storage.Record) error {
		skip := int(r.stream.Offset() - at)
		text, how := rec.Text[skip:], lessonOf(rec).From(rec.Text, skip)
		for len(text) > 0 {
			n, err := from.feed(ctx, r, text, how)
			if err != nil {
				return interrupted{err}
			}
			text, how = text[n:], how.From(text, n)
		}
		compare(rec)
		return nil
	})
}

// interrupted marks an error that stopped the computation, to distinguish it from errors of the
// store.
type interrupted struct{ error }

func (e interrupted) Unwrap() error { return e.error }

// feed computes the beginning of a text, at most one chunk, and returns the number of computed
// bytes.
func (from *restorable) feed(
	ctx context.Context, r *restoration, text []byte, how stream.Lesson,
) (int, error) {
	if err := from.more(r); err != nil {
		return 0, err
	}
	l, err := from.scheduler.Lease(ctx, from.job)
	if err != nil {
		return 0, err
	}
	defer l.ReleaseSoon()
	begun, w := time.Now(), l.Worker()
	w.Settle(r.stream)
	n := w.FeedAs(r.stream, text, how)
	r.cost += time.Since(begun)
	return n, nil
}

func lessonOf(r storage.Record) stream.Lesson {
	return stream.Lesson{ByLine: r.ByLine, Skipped: r.Skipped}
}

func (from *restorable) compare(r *restoration, rec *storage.Record) {
	if rec.UnixMS != uncounted {
		tally, baseline := totalsOf(rec, r.stream.Offset())
		from.adopt(r, tally, baseline)
	}
}

// adopt replaces the stream's totals with the totals that clients got. It reports the first
// difference between recomputed and original totals.
func (from *restorable) adopt(r *restoration, tally, baseline tokenizer.Tally) {
	st := r.stream
	wrong := mismatch(from.head.ID, st, tally.Bits, baseline.Bits)
	if wrong != nil && r.exact && !r.mismatched {
		r.mismatched = true
		from.logError(wrong)
	}
	st.Tally.Bits, st.Tally.UnknownBits = tally.Bits, tally.UnknownBits
	st.Tally.Chars = tally.Chars // Older versions of lmserve counted every byte as a character.
	if st.Settings.Baseline {
		st.Baseline.Chars = tally.Chars
		st.Baseline.Bits, st.Baseline.UnknownBits = baseline.Bits, baseline.UnknownBits
	}
}

// mismatch compares the totals of a stream with the totals that clients got, bit by bit. It returns
// nil if they are equal.
func mismatch(id string, st *stream.Stream, bits, baseline float64) *MismatchError {
	e := &MismatchError{ID: id, Offset: st.Offset(), Have: st.Tally.Bits, Want: bits}
	if math.Float64bits(e.Have) != math.Float64bits(e.Want) {
		return e
	}
	e.Have, e.Want, e.Baseline = st.Baseline.Bits, baseline, true
	if st.Settings.Baseline && math.Float64bits(e.Have) != math.Float64bits(e.Want) {
		return e
	}
	return nil
}

// MismatchError means that the totals recomputed from a session's log differ from the totals that
// clients got. Both computations used the same arithmetic, so the state or the weights have
// changed. The session continues with the clients' totals.
type MismatchError struct {
	ID       string
	Offset   int64 // end of the first record whose totals differ
	Have     float64
	Want     float64
	Baseline bool // true if only the baseline's totals differ
}

func (e *MismatchError) Error() string {
	what := "bits"
	if e.Baseline {
		what = "baseline bits"
	}
	return fmt.Sprintf("session: session %s, offset %d: the recomputed total is %v %s, expected "+
		"%v, the reported total", e.ID, e.Offset, e.Have, what, e.Want)
}

// noteNumerics records the arithmetic that computes the session from offset n.From on.
func (h *head) noteNumerics(n numerics) {
	all := slices.Clone(h.Numerics)
	// No text was computed with the last arithmetic.
	for len(all) > 0 && all[len(all)-1].From >= n.From {
		all = all[:len(all)-1]
	}
	h.Numerics = append(all, n)
}
