package scheduler

import "time"

// A worker that switches to another session must recompute the keys and values of that session's
// memory. This takes about a third of the time for a chunk. So a session with more text keeps its
// worker for several chunks, even if others wait.
const (
	// turn is how long a session may keep its worker while others wait. This is enough for about
	// ten chunks of the default model.
	turn = 250 * time.Millisecond
	// keeping is how long a worker is reserved for the next chunk of a session. This is enough
	// because the request has its text ready.
	keeping = time.Millisecond
)

// releaseSoon ends a job whose session will soon need a worker again. If other sessions wait, the
// slot is reserved for this session's next job. There is no reservation if the session's turn is
// over, or if a waiting request has not had a worker yet.
func (sc *Scheduler) releaseSoon(s *slot) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.endLocked(s.job)
	line := &sc.mu.line
	if s.job.Behind || line.length == 0 || line.first > 0 || time.Since(s.turn) >= turn {
		sc.passLocked(s)
		return
	}
	var kept *time.Timer
	kept = time.AfterFunc(keeping, func() {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if s.kept == kept {
			s.kept = nil
			sc.passLocked(s)
		}
	})
	s.kept = kept
}

// takeKeptLocked returns the slot that is reserved for the job's session, and ends the reservation.
// It returns nil if there is none.
func (sc *Scheduler) takeKeptLocked(j Job) *slot {
	for _, s := range sc.mu.all {
		if s.kept != nil && j.goesOn(s.job) && s.endKeepingLocked() {
			return s
		}
	}
	return nil
}

// endKeepingLocked ends the slot's reservation, and reports whether there was one.
func (s *slot) endKeepingLocked() bool {
	if s.kept == nil {
		return false
	}
	s.kept.Stop()
	s.kept = nil
	return true
}
