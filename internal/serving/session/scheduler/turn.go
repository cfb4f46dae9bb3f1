package scheduler

import "time"

// A worker that switches to another session must recompute the keys and values of that session's
// memory. This takes about a third of the time for a chunk. So a session with more text keeps its
// worker for several chunks, even while other sessions wait.
const (
	// turn is how long a session may keep its worker while others wait. The default model computes
	// about ten chunks in this time.
	turn = 250 * time.Millisecond
	// keeping is how long a worker is reserved for the next chunk of a session. A short time is
	// enough, because the text of the chunk is already there.
	keeping = time.Millisecond
)

// releaseSoon ends a job whose session will soon need a worker again. If other sessions wait, the
// slot is reserved for the session's next job. There is no reservation if the session's turn is
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

// takeKeptLocked ends the reservation of a slot for the job's session, and returns the slot.
// Without a reservation, it returns nil.
func (sc *Scheduler) takeKeptLocked(j Job) *slot {
	for _, s := range sc.mu.all {
		if s.kept != nil && j.goesOn(s.job) && s.endKeepingLocked() {
			return s
		}
	}
	return nil
}

func (s *slot) endKeepingLocked() bool {
	if s.kept == nil {
		return false
	}
	s.kept.Stop()
	s.kept = nil
	return true
}
