package kernel

import (
	"sync/atomic"
	"time"
)

// An idle thread polls for work for yieldTime and then parks. During spinTime it polls without a
// pause, then it yields its core between polls. Within a chunk, the next operation usually starts
// before yieldTime has passed. Waking a parked thread takes about as long as yieldTime.
const (
	spinTime  = 20 * time.Microsecond
	yieldTime = 200 * time.Microsecond
)

// gate lets one goroutine wait for a signal from another. The waiting goroutine first polls, then
// parks.
type gate struct {
	state atomic.Uint32
	wake  chan struct{}
	waker int // core of the thread that woke the waiting thread
}

const (
	gateShut = iota
	gateOpen
	gateParked // the gate is shut, and the waiting goroutine is parked
)

func (g *gate) init() { g.wake = make(chan struct{}, 1) }

// open releases the goroutine that waits now or next. Opening an open gate does nothing.
func (g *gate) open() {
	if g.state.Swap(gateOpen) == gateParked {
		g.waker = core()
		g.wake <- struct{}{}
	}
}

// wait blocks until the gate is open, then shuts the gate.
func (g *gate) wait() {
	if !g.spin() && g.state.CompareAndSwap(gateShut, gateParked) {
		<-g.wake
		if core() == g.waker {
			leave(g.waker)
		}
	}
	g.state.Store(gateShut)
}

// spin polls the gate for a limited time and reports whether it opened.
func (g *gate) spin() bool {
	const looksPerClock = 64 // polls per reading of the clock, which costs about 50 polls
	start := time.Now()
	for {
		for range looksPerClock {
			if g.state.Load() == gateOpen {
				return true
			}
		}
		switch waited := time.Since(start); {
		case waited > yieldTime:
			return false
		case waited > spinTime:
			yield()
		}
	}
}
