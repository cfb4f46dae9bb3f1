package scheduler

import "time"

// A worker that takes up another session computes the keys and values of its memory again, which
// costs as much as a third of a chunk. So a session whose text goes on keeps its worker for some
// chunks, though others wait.
const (
	// turn is how long a session may keep its worker while others wait: some ten chunks of the
	// default model.
	turn = 250 * time.Millisecond
	// keeping is how long a worker is kept for the next chunk of a session: its request has the
	// text at hand, and comes at once if nothing is in its way.
	keeping = time.Millisecond
)

// releaseSoon gives a worker back for a session that is about to want it again. If others wait, the
// worker is kept for it, unless its turn is over or one of those has not had a worker yet.
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

// takeKeptLocked returns the slot that is kept for a job's session, and keeps it no more; nil if
// none is.
func (sc *Scheduler) takeKeptLocked(j Job) *slot {
	for _, s := range sc.mu.all {
		if s.kept != nil && j.goesOn(s.job) && s.endKeepingLocked() {
			return s
		}
	}
	return nil
}

// endKeepingLocked reports whether the slot was kept for a session. It is no more.
func (s *slot) endKeepingLocked() bool {
	if s.kept == nil {
		return false
	}
	s.kept.Stop()
	s.kept = nil
	return true
}
