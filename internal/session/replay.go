package session

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/session/scheduler"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// MismatchError says that a session computed again from its log did not come to the totals that
// were told when the text was accepted, though in the same arithmetic: some state or some weight is
// not what it was. The session goes on with the totals that were told.
type MismatchError struct {
	ID       string
	Offset   int64 // where the record ends that shows it first
	Have     float64
	Want     float64
	Baseline bool // the totals are the baseline's
}

func (e *MismatchError) Error() string {
	what := "bits"
	if e.Baseline {
		what = "baseline bits"
	}
	return fmt.Sprintf("session: session %s, offset %d: computed again, its total is %v %s, expected %v, as was told",
		e.ID, e.Offset, e.Have, what, e.Want)
}

// logReader is what a replay needs of a sessionlog.Store.
type logReader interface {
	Read(
		ctx context.Context, id string, from int64, visit func(at int64, r sessionlog.Record) error,
	) error
}

// replayer computes a log again, chunk by chunk as requests do, so that nobody waits longer for a
// replay than for a request. Recovery, forks and offline replays all use it.
type replayer struct {
	stream    *stream.Stream // where the replay is
	job       scheduler.Job
	scheduler *scheduler.Scheduler
	goesOn    func() error            // asked before every chunk: why the replay should end
	compare   func(sessionlog.Record) // called with every record, when the stream is at its end
	cost      time.Duration           // computing
}

// interrupted keeps the errors of computing apart from those of the store that is read.
type interrupted struct{ error }

func (e interrupted) Unwrap() error { return e.error }

// run computes the log from the stream's offset to its end. Its error is an interrupted one if the
// computing was given up; else it is the store's.
func (r *replayer) run(ctx context.Context, log logReader) error {
	from := r.stream.Offset()
	return log.Read(ctx, r.job.Session, from, func(at int64, rec sessionlog.Record) error {
		from := int(r.stream.Offset() - at)
		if err := r.feed(ctx, rec.Text[from:], lessonOf(rec).From(rec.Text, from)); err != nil {
			return interrupted{err}
		}
		r.compare(rec)
		return nil
	})
}

// lessonOf is how a session learns from the text of a record.
func lessonOf(r sessionlog.Record) stream.Lesson {
	return stream.Lesson{ByLine: r.ByLine, Skipped: r.Skipped}
}

func (r *replayer) feed(ctx context.Context, text []byte, how stream.Lesson) error {
	for len(text) > 0 {
		if err := r.goesOn(); err != nil {
			return err
		}
		l, err := r.scheduler.Lease(ctx, r.job)
		if err != nil {
			return err
		}
		begun, w := time.Now(), l.Worker()
		w.Settle(r.stream)
		n := w.FeedAs(r.stream, text, how)
		r.cost += time.Since(begun)
		l.ReleaseSoon()
		text, how = text[n:], how.From(text, n)
	}
	return nil
}

// mismatch compares the totals that a stream has come to with those that were told, to the bit. It
// returns nil if they are the same.
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
