package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// errSnapshotDue pauses a restoration until a snapshot is taken.
var errSnapshotDue = errors.New("a snapshot is due")

// restoreLocked recovers the session's stream. If limit is not 0 and the recovery takes longer, it
// fails. A long recovery takes snapshots, so that its progress is not lost.
func (s *session) restoreLocked(ctx context.Context, limit time.Duration) error {
	from, until := s.restorableLocked(), time.Now().Add(limit)
	from.more = func(r *restoration) error {
		s.replayCost = r.cost
		now := Recovery{Done: r.stream.Offset() - r.from, Of: from.end.offset - r.from}
		s.noteRecovery(now)
		switch err := s.alive(); {
		case err != nil:
			return err
		case r.exact && s.host.store.Durable() && s.snapshotDueLocked():
			return errSnapshotDue
		case limit > 0 && time.Now().After(until):
			return &RecoveringError{now}
		}
		return s.host.life.Check()
	}
	for {
		if s.paused != nil {
			s.paused.cost = s.replayCost // Taking the snapshot set replayCost to 0.
		}
		r, err := restore(ctx, from, s.paused)
		s.paused = nil
		if r == nil || s.alive() != nil {
			return cmp.Or(err, s.alive())
		}
		if err := s.dropDamagedLocked(context.WithoutCancel(ctx), r); err != nil {
			return err
		}
		if err != nil {
			s.paused = r
		}
		if errors.Is(err, errSnapshotDue) {
			if s.snapshotLocked(context.Background()); s.paused == nil {
				return fmt.Errorf("%w: that server claimed the session while this server was "+
					"restoring the state", ErrElsewhere)
			}
			// A request may have begun to use this shadow meanwhile, which raises the job's
			// priority.
			from.job = s.job()
			continue
		}
		if err != nil {
			return err
		}
		return s.restoredLocked(ctx, r)
	}
}

func (s *session) restorableLocked() *restorable {
	h := s.host
	return &restorable{
		head: &s.head, model: s.weights, log: h.store,
		snapshots: limitedSnapshots{h.store, h.snapshots.slots},
		scheduler: h.scheduler, job: s.job(), end: s.seen(),
		replayed: h.observer.Replayed, logError: h.logError,
	}
}

// restoredLocked sets the session's stream to the restored stream. If this machine's arithmetic
// differs from the log's, it first takes a snapshot. Replaying the log on this machine would not
// reproduce the same bits, so later recoveries start from this snapshot.
func (s *session) restoredLocked(ctx context.Context, r *restoration) error {
	s.replayCost, s.snapshotAt = r.cost, 0
	if h := r.changed; h != nil {
		was, now := s.numerics(), h.numerics()
		s.host.logError(fmt.Errorf("session: session %s was computed with arithmetic %s up to "+
			"offset %d and continues with %s: scores may differ by rounding",
			s.ID, was.Name, now.From, now.Name))
		if err := s.writeStateLocked(ctx, r.stream); err != nil {
			return err
		}
		if err := s.setHeadLocked(ctx, h); err != nil {
			return err
		}
	}
	s.stream, s.rms = r.stream, r.stream.FastRMS()
	s.noteRecovery(Recovery{})
	s.publishLocked()
	s.tellIncidentsLocked()
	return nil
}
