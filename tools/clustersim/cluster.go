package main

import (
	"fmt"
	"math"
)

// costs are the costs of a session for one model, in seconds of one core and in bytes.
type costs struct {
	byte       float64 // seconds to score and learn a byte of text
	stateBytes float64 // bytes of a state in the object store
	readState  float64 // seconds to read a state
	hotBytes   float64 // bytes of a state in a server's memory
}

// models contains costs measured on one core with AVX2 (docs/speed.md, docs/operations.md). Reading
// a state from an object store took 84 ms for 12 MiB and 31 ms for 5 MiB.
var models = map[string]costs{
	"default": {byte: 444e-6, stateBytes: 12 << 20, readState: 0.084, hotBytes: 16e6},
	"swift":   {byte: 45e-6, stateBytes: 1 << 20, readState: 0.010, hotBytes: 1.4e6},
}

// Costs of a database statement in seconds, measured with appends. On two cores, the database
// handled 6,573 appends of 128 bytes per second, each in a transaction. Without load, an append
// takes 1/364 s. Other statements are assumed to cost the same as an append.
const (
	statementCore = 2. / 6573
	statementWait = 1. / 364
)

// Times of servers and clients in seconds.
const (
	heartbeat = 2  // interval between two heartbeats of a server
	lease     = 10 // duration of a server's lease on its sessions
	retry     = 1  // pause before a refused client tries again
	hop       = 0.0005
)

type cluster struct {
	costs         costs
	nodes, cores  int
	memory        float64 // bytes of memory for states, per server
	sessions      int
	rate          float64 // requests per second of all clients
	bytes         int     // bytes of text per request
	burst         float64 // mean number of requests in a burst
	think         float64 // mean seconds between requests of a burst
	databaseCores int
	rack          int     // number of servers that fail at the same time
	lost          float64 // time of the failure, in seconds
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
		return fmt.Errorf("found %d servers, %d cores per server, %d cores of the database, %d "+
			"sessions, %d bytes: expected at least 1 of each",
			c.nodes, c.cores, c.databaseCores, c.sessions, c.bytes)
	case c.rack < 0 || c.rack >= c.nodes:
		return fmt.Errorf("-rack is %d, expected 0 to %d", c.rack, c.nodes-1)
	case !(c.rate > 0) || !(c.seconds > c.lost+lease):
		return fmt.Errorf("-rate is %g and -seconds is %g, expected a rate above 0 and more than "+
			"%g seconds", c.rate,
			c.seconds, c.lost+lease)
	}
	return nil
}

// warm returns the probability that a session's state is still in its server's memory when a burst
// begins. Each server keeps the states of the sessions used last. Bursts of a session begin at
// random times.
func (c cluster) warm() float64 {
	places := float64(c.nodes) * c.memory / c.costs.hotBytes
	return 1 - math.Exp(-places/float64(c.sessions))
}
