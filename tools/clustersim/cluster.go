package main

import (
	"fmt"
	"math"
)

// costs are those of single steps of a session on a model, in seconds of one core and in bytes.
type costs struct {
	byte       float64 // to score and learn a byte of text
	stateBytes float64 // of a state in the object store
	readState  float64 // seconds until a state is read
	hotBytes   float64 // of a state in a server's memory
}

// models are what was measured (docs/speed.md and docs/operations.md) on a core of a server with
// AVX2; states of 5 and 12 MiB were read from an object store in 31 and 84 ms.
var models = map[string]costs{
	"default": {byte: 444e-6, stateBytes: 12 << 20, readState: 0.084, hotBytes: 16e6},
	"swift":   {byte: 45e-6, stateBytes: 1 << 20, readState: 0.010, hotBytes: 1.4e6},
}

// What the database takes: 6,573 appends of 128 bytes a second on two cores, each a transaction, of
// which one alone takes 1/364 s. Every other statement is taken to cost as much.
const (
	statementCore = 2. / 6573
	statementWait = 1. / 364
)

// What servers and clients do, in seconds.
const (
	heartbeat = 2  // between two
	lease     = 10 // of the database's clock
	retry     = 1  // a client that was refused tries again
	hop       = 0.0005
)

// cluster is what is simulated.
type cluster struct {
	costs         costs
	nodes, cores  int
	memory        float64 // bytes of a server for states
	sessions      int
	rate          float64 // requests a second, of all
	bytes         int     // of a request
	burst         float64 // mean number of requests before a session falls silent
	think         float64 // mean seconds between two requests of a burst
	databaseCores int
	rack          int     // servers that are lost at once
	lost          float64 // when
	seconds       float64
	seed          uint64
}

func defaults() cluster {
	return cluster{
		costs: models["default"], nodes: 1000, cores: 16, memory: 64e9, sessions: 1e7,
		rate: 1e5, bytes: 256, burst: 50, think: 2, databaseCores: 64, rack: 40, lost: 20,
		seconds: 60,
	}
}

func (c cluster) check() error {
	switch {
	case c.nodes < 1 || c.cores < 1 || c.databaseCores < 1 || c.sessions < 1 || c.bytes < 1:
		return fmt.Errorf("servers %d, cores %d and %d, sessions %d, bytes %d: expected at least "+
			"1 of each",
			c.nodes, c.cores, c.databaseCores, c.sessions, c.bytes)
	case c.rack < 0 || c.rack >= c.nodes:
		return fmt.Errorf("-rack is %d, expected 0 to %d", c.rack, c.nodes-1)
	case !(c.rate > 0) || !(c.seconds > c.lost+lease):
		return fmt.Errorf("-rate is %g and -seconds %g, expected more than 0 and %g", c.rate,
			c.seconds, c.lost+lease)
	}
	return nil
}

// warm is the probability that a session which begins a burst is still in its server's memory, if
// the sessions that have come there last are: those that come once in sessions/bursts seconds on
// average.
func (c cluster) warm() float64 {
	places := float64(c.nodes) * c.memory / c.costs.hotBytes
	return 1 - math.Exp(-places/float64(c.sessions))
}
