package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// Kinds of events, in the order in which they occur in a request.
const (
	begins   = iota // the client asks the database for the owner
	located         // the database has answered
	arrives         // the request is at the server
	computed        // the server has scored the text
	appended        // the database has stored the text
)

type event struct {
	at    float64
	kind  int
	burst *burst
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// burst is a series of requests of one session.
type burst struct {
	session int32
	node    int
	left    int
	sent    float64
	hot     bool
	unkept  int // bytes of text since the last snapshot
}

// pool is a set of cores that process work in order of arrival.
type pool []float64 // a heap of the times at which the cores become free

func (p pool) take(at, work float64) (end float64) {
	end = max(at, p[0]) + work
	p[0] = end
	for i := 0; ; {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < len(p) && p[c] < p[least] {
				least = c
			}
		}
		if least == i {
			return end
		}
		p[i], p[least] = p[least], p[i]
		i = least
	}
}

type phase struct {
	from, to                  float64
	waits                     histogram
	claims, refused           int
	databaseBusy, serversBusy float64 // in seconds of one core
	objectBytes               float64
}

type simulation struct {
	c        cluster
	rng      *rand.Rand
	events   events
	now      float64
	database pool
	servers  []pool
	owner    []uint16
	dead     int // number of lost servers: server i is lost if i < dead
	phases   []*phase
	phase    *phase
}

func newSimulation(c cluster) *simulation {
	s := &simulation{
		c: c, rng: rand.New(rand.NewPCG(c.seed, 0)), database: make(pool, c.databaseCores),
		owner: make([]uint16, c.sessions),
	}
	for range c.nodes {
		s.servers = append(s.servers, make(pool, c.cores))
	}
	for i := range s.owner {
		s.owner[i] = uint16(s.rng.IntN(c.nodes))
	}
	ends := []float64{c.lost, c.lost + lease, c.lost + 2*lease, c.seconds}
	for i, end := range ends {
		from := c.lost / 2 // until then, the simulation has not reached a steady state
		if i > 0 {
			from = ends[i-1]
		}
		s.phases = append(s.phases, &phase{from: from, to: end})
	}
	return s
}

func (s *simulation) run() {
	active := s.c.rate * s.c.think
	for range int(active) {
		b := s.newBurst()
		b.hot = true
		b.unkept = s.rng.IntN(b.left+1) * s.c.bytes
		s.send(b, s.rng.ExpFloat64()*s.c.think, begins)
	}
	between := s.c.burst / s.c.rate
	next, beat := s.rng.ExpFloat64()*between, 0.
	for {
		at := min(next, beat)
		if len(s.events) > 0 {
			at = min(at, s.events[0].at)
		}
		if at >= s.c.seconds {
			return
		}
		s.advance(at)
		switch at {
		case beat:
			s.statement()
			beat += heartbeat / float64(s.c.nodes)
		case next:
			b := s.newBurst()
			b.hot = s.rng.Float64() < s.c.warm()
			s.send(b, 0, begins)
			next += s.rng.ExpFloat64() * between
		default:
			e := heap.Pop(&s.events).(event)
			s.step(e.kind, e.burst)
		}
	}
}

func (s *simulation) advance(at float64) {
	s.now = at
	if at >= s.c.lost {
		s.dead = s.c.rack
	}
	s.phase = nil
	for _, p := range s.phases {
		if at >= p.from && at < p.to {
			s.phase = p
		}
	}
	if s.phase == nil {
		s.phase = &phase{}
	}
}

func (s *simulation) newBurst() *burst {
	return &burst{session: int32(s.rng.IntN(s.c.sessions)),
		left: 1 + int(s.rng.ExpFloat64()*s.c.burst)}
}

func (s *simulation) after(seconds float64, kind int, b *burst) {
	heap.Push(&s.events, event{s.now + seconds, kind, b})
}

func (s *simulation) send(b *burst, pause float64, kind int) {
	b.sent = s.now + pause
	s.after(pause, kind, b)
}

func (s *simulation) isDead(node int) bool { return node < s.dead }

// statement simulates a database statement and returns its duration in seconds.
func (s *simulation) statement() (seconds float64) {
	s.phase.databaseBusy += statementCore
	return s.database.take(s.now, statementCore) - s.now + statementWait
}

func (s *simulation) step(kind int, b *burst) {
	switch kind {
	case begins:
		s.after(s.statement(), located, b)
	case located:
		s.locate(b)
	case arrives:
		s.compute(b)
	case computed:
		if s.isDead(b.node) {
			s.lose(b)
			return
		}
		s.after(s.statement(), appended, b)
	case appended:
		s.finish(b)
	}
}

// locate looks up the server of a session. If this server is lost and its lease is over, another
// server claims the session.
func (s *simulation) locate(b *burst) {
	b.node = int(s.owner[b.session])
	if !s.isDead(b.node) {
		s.after(hop, arrives, b)
		return
	}
	if s.now < s.c.lost+lease { // the lease of the lost server is still valid
		s.lose(b)
		return
	}
	// a random server, because rendezvous hashing spreads sessions evenly
	b.node = s.dead + s.rng.IntN(s.c.nodes-s.dead)
	s.owner[b.session] = uint16(b.node)
	s.phase.claims++
	b.hot = false
	s.after(s.statement()+hop, arrives, b)
}

// compute scores a request on the server. If the state is not in memory, the server first reads the
// state and recomputes the text after the snapshot.
func (s *simulation) compute(b *burst) {
	if s.isDead(b.node) {
		s.lose(b)
		return
	}
	work := float64(s.c.bytes) * s.c.costs.byte
	wait := 0.
	if !b.hot {
		wait = s.c.costs.readState
		work += float64(b.unkept) * s.c.costs.byte
		s.phase.objectBytes += s.c.costs.stateBytes
		b.hot = true
	}
	s.phase.serversBusy += work
	s.after(s.servers[b.node].take(s.now+wait, work)-s.now, computed, b)
}

func (s *simulation) lose(b *burst) {
	s.phase.refused++
	s.after(retry, begins, b)
}

func (s *simulation) finish(b *burst) {
	s.phase.waits.add(s.now - b.sent)
	b.unkept += s.c.bytes
	b.left--
	if b.left > 0 {
		kind := arrives // the client now knows the server
		if s.isDead(b.node) {
			kind = begins
		}
		s.send(b, s.rng.ExpFloat64()*s.c.think, kind)
		return
	}
	s.phase.objectBytes += s.c.costs.stateBytes
	// a snapshot needs three statements: announce the object, enter the object, drop the old object
	for range 3 {
		s.statement()
	}
}

// histogram counts times on a logarithmic scale, with a resolution of about 5 %.
type histogram struct{ counts []int }

const bins = 20 // number of bins per factor of e

func (h *histogram) add(seconds float64) {
	i := max(0, int(bins*(math.Log(max(seconds, 1e-9))+8)))
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int, i+1-len(h.counts))...)
	}
	h.counts[i]++
}

func (h *histogram) count() (n int) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// quantile returns a quantile of the counted times in seconds; part is from 0 to 1.
func (h *histogram) quantile(part float64) float64 {
	left := part * float64(h.count())
	i := slices.IndexFunc(h.counts, func(c int) bool { left -= float64(c); return left <= 0 })
	return math.Exp(float64(i)/bins - 8)
}
