package scheduler

import "time"

// Sessions that nobody waits for compute behind all others: only while no other session is active,
// so that they slow none down. One that feeds a long text gives its worker back after every chunk;
// what it does until the next one is no pause.
const (
	// pause is how long no other session has been active when one behind them gets a worker.
	pause = 5 * time.Millisecond
	// starving is how long those behind wait while there is no pause: then one of them computes one
	// chunk all the same, so that they come to their ends on a server that never rests.
	starving = time.Second
)

// behind is what the scheduler knows of the jobs behind all others.
type behind struct {
	line  line
	ahead int       // sessions that are not behind, and hold a worker or wait for one
	rests time.Time // when the last of these has given its worker back
	since time.Time // when one behind was granted a worker last, or the first came to wait
	timer *time.Timer
}

// due is how long those behind have to wait from now on, if nothing happens.
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

// next removes the ticket that a worker is granted to; nil if there is none, or not yet.
func (b *behind) next() *ticket {
	if b.line.length == 0 || b.due() > 0 {
		return nil
	}
	b.since = time.Now()
	return b.line.next()
}

// watchLocked sees to it that those behind get a worker when they are due, if one is free. One that
// comes free finds them by itself.
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

// grantBehind grants free workers to those behind that are due.
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
