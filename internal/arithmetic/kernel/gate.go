package kernel

import (
	"sync/atomic"
	"time"
)

// An idle thread polls for work for yieldTime and then parks. For the first spinTime it polls
// without a pause; afterwards it yields its core between polls. The next operation usually starts
// within yieldTime. Waking a parked thread takes about as long as yieldTime.
const (
	spinTime  = 20 * time.Microsecond
	yieldTime = 200 * time.Microsecond
)

// gate lets one goroutine wait for a signal from another. The waiting goroutine first polls, then
// parks.
type gate struct {
	state atomic.Uint32
	wake  chan struct{}
	waker int
}

const (
	gateShut = iota
	gateOpen
	gateParked
)

func (g *gate) init() { g.wake = make(chan struct{}, 1) }

// open opens the gate, so that a waiting goroutine or the next call of wait continues. Opening an
// open gate does nothing.
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

func (g *gate) spin() bool {
	// looksPerClock is the number of polls between two readings of the clock. A reading takes as
	// long as about 50 polls.
	const looksPerClock = 64
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
