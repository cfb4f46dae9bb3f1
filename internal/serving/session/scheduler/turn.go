package scheduler

import "time"

// A worker that switches to another session recomputes the keys and values of the session's memory,
// which costs about a third of a chunk. So a session with more text keeps its worker for some
// chunks, even if others wait.
const (
	// turn is how long a session may keep its worker while others wait: about ten chunks of the
	// default model.
	turn = 250 * time.Millisecond
	// keeping is how long a worker is kept for the next chunk of a session. The request has the
	// text ready, and asks at once unless something delays it.
	keeping = time.Millisecond
)

// releaseSoon returns a worker whose session will soon need it again. If other sessions wait, the
// worker is kept for its session. It is not kept if the session's turn is over, or if one of the
// waiting requests has not had a worker yet.
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

// takeKeptLocked returns the slot that is kept for a job's session, and ends the keeping; nil if
// there is none.
func (sc *Scheduler) takeKeptLocked(j Job) *slot {
	for _, s := range sc.mu.all {
		if s.kept != nil && j.goesOn(s.job) && s.endKeepingLocked() {
			return s
		}
	}
	return nil
}

// endKeepingLocked ends the keeping of the slot, and reports whether it was kept.
func (s *slot) endKeepingLocked() bool {
	if s.kept == nil {
		return false
	}
	s.kept.Stop()
	s.kept = nil
	return true
}
