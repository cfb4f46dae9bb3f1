package scheduler

import "time"

// Nobody waits for background jobs. They compute only while no other session is active, so that
// they delay no request. A session that feeds a long text releases its worker after every chunk.
// The short time until its next chunk does not count as a pause.
const (
	// pause is the idle time of all other sessions after which a background job gets a worker.
	pause = 5 * time.Millisecond
	// starving is the longest wait of background jobs without such a pause. After this time, one of
	// them computes one chunk, so that they make progress even on a busy server.
	starving = time.Second
)

// behind contains the queue of background jobs, and what decides when they may run.
type behind struct {
	line  line
	ahead int       // foreground sessions that have a worker or wait for one
	rests time.Time // when the last foreground session released its worker
	since time.Time // when a background job last got a worker, or the first joined
	timer *time.Timer
}

// due returns how long background jobs must still wait if no other job arrives.
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

// next removes and returns the next ticket that may get a worker. It returns nil if no background
// job may run now.
func (b *behind) next() *ticket {
	if b.line.length == 0 || b.due() > 0 {
		return nil
	}
	b.since = time.Now()
	return b.line.next()
}

// watchLocked sets a timer that gives a free worker to a background job when that is due. If no
// worker is free, no timer is needed: the next released worker serves the job.
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

// grantBehind gives free workers to background jobs that are due.
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
