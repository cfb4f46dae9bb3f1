package scheduler

import "time"

// Background jobs, for which nobody waits, compute only while no other session is active, so that
// they delay none. A session that feeds a long text releases its worker after every chunk; the
// short time until its next chunk does not count as a pause.
const (
	// pause is the time without other active sessions after which a background job gets a worker.
	pause = 5 * time.Millisecond
	// starving is how long background jobs wait if there is no pause. Then one of them computes one
	// chunk nevertheless, so that they end even on a server that is always busy.
	starving = time.Second
)

// behind is the state of the background jobs.
type behind struct {
	line  line
	ahead int       // sessions in the foreground that hold a worker or wait for one
	rests time.Time // when the last of these has released its worker
	since time.Time // when a background job last got a worker, or the first began to wait
	timer *time.Timer
}

// due returns how long background jobs have to wait from now on, if nothing happens.
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

// next removes the next ticket to get a worker; nil if there is none, or not yet.
func (b *behind) next() *ticket {
	if b.line.length == 0 || b.due() > 0 {
		return nil
	}
	b.since = time.Now()
	return b.line.next()
}

// watchLocked makes sure that background jobs get a worker when they are due, if one is free. A
// worker that becomes free later takes them itself.
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
