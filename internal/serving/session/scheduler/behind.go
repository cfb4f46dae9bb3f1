package scheduler

import "time"

// Clients do not wait for background jobs. These jobs compute only while all other sessions are
// idle, so that they delay no request. The short time between two chunks of a long text does not
// count as idle.
const (
	// pause is how long all other sessions must be idle before a background job gets a worker.
	pause = 5 * time.Millisecond
	// starving is the longest wait of background jobs for idle sessions. Then one job computes one
	// chunk, so that background jobs make progress even on a busy server.
	starving = time.Second
)

// behind contains the queue of background jobs, and the data that decide when they may run.
type behind struct {
	line  line
	ahead int
	rests time.Time
	since time.Time
	timer *time.Timer
}

// due returns how long background jobs must still wait, unless other jobs arrive.
func (b *behind) due() time.Duration {
	if b.ahead > 0 {
		return time.Until(b.since.Add(starving))
	}
	return time.Until(b.rests.Add(pause))
}

func (b *behind) join(t *ticket) {
	if b.line.length == 0 {
		b.since = time.Now()
	}
	b.line.join(t)
}

func (b *behind) next() *ticket {
	if b.line.length == 0 || b.due() > 0 {
		return nil
	}
	b.since = time.Now()
	return b.line.next()
}

// watchLocked sets the timer after which a background job gets a free worker. If no worker is free,
// no timer is needed: the next released worker serves the job.
func (sc *Scheduler) watchLocked() {
	b := &sc.mu.behind
	if b.line.length == 0 || !sc.freeLocked() {
		return
	}
	if wait := max(0, b.due()); b.timer == nil {
		b.timer = time.AfterFunc(wait, sc.grantBehind)
	} else {
		b.timer.Reset(wait)
	}
}

func (sc *Scheduler) grantBehind() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for sc.freeLocked() {
		t := sc.mu.behind.next()
		if t == nil {
			break
		}
		t.ready <- sc.beginLocked(sc.pickLocked(t.job), t.job)
	}
	sc.watchLocked()
}
