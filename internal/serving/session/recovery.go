package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// This file recovers a session's stream, and the state that the session keeps with it.

// errSnapshotDue pauses a restoration, which continues at once when the snapshot is taken.
var errSnapshotDue = errors.New("a snapshot is due")

// restoreLocked recovers the session's stream within a limit of time. A long recovery takes
// snapshots on its way.
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
			s.paused.cost = s.replayCost // the snapshot has reset it to 0
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
			from.job = s.job() // a request may have asked for the shadow meanwhile
			continue
		}
		if err != nil {
			return err
		}
		return s.restoredLocked(ctx, r)
	}
}

// restorableLocked returns the inputs of the session's recovery.
func (s *session) restorableLocked() *restorable {
	h := s.host
	return &restorable{
		head: &s.head, model: s.weights, log: h.store,
		snapshots: limitedSnapshots{h.store, h.snapshots.slots},
		scheduler: h.scheduler, job: s.job(), end: s.seen(),
		replayed: h.observer.Replayed, logError: h.logError,
	}
}

// restoredLocked gives the restored stream to the session. If the session continues in another
// arithmetic, it takes a snapshot first. The log before the snapshot cannot be recomputed to the
// same bits here. So no recovery may need it after the head names the new arithmetic.
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
		s.noteHeadLocked(h)
	}
	s.stream, s.rms = r.stream, r.stream.FastRMS()
	s.noteRecovery(Recovery{})
	s.publishLocked()
	s.tellIncidentsLocked()
	return nil
}
