package scheduler

import "slices"

// ticket is a job's place in the queue.
type ticket struct {
	job     Job
	ready   chan *slot // has a buffer for the slot, so that sending never blocks
	arrived uint64     // order of arrival
}

// line is the queue for workers. The next worker goes to the key that has waited longest since its
// last worker. Within the key, the oldest ticket gets it. So while a key waits, each other key gets
// at most one worker, however many sessions it has in the queue.
//
// Within a key, requests that have not had a worker yet come first, so that a short request does
// not wait for long ones. After firstsInRow such requests, another request of the key gets a
// worker, so that no request starves.
type line struct {
	// keys contains the keys in the queue, and keys that got a worker since the queue was last
	// empty.
	keys   map[string]turns
	length int    // number of tickets
	first  int    // number of tickets whose request has not had a worker
	now    uint64 // logical time: number of arrivals and grants
}

// firstsInRow is how many requests of a key that have not had a worker may pass its other requests
// in succession.
const firstsInRow = 3

// turns contains the tickets of a key, and its past grants.
type turns struct {
	// tickets begins with requests that have not had a worker, followed by the others. Both parts
	// are in order of arrival.
	tickets []*ticket
	granted uint64 // logical time of the last grant; 0 if the queue was empty since
	firsts  int    // requests without a worker that passed others in succession
}

// head returns the index of the ticket that gets the key's next worker.
func (k *turns) head() int {
	if k.firsts < firstsInRow {
		return 0
	}
	return max(0, slices.IndexFunc(k.tickets, goesOn))
}

func goesOn(t *ticket) bool { return !t.job.First }

// join adds a ticket to the queue.
func (l *line) join(t *ticket) {
	if l.keys == nil {
		l.keys = map[string]turns{}
	}
	l.now++
	t.arrived = l.now
	k := l.keys[t.job.Key]
	at := len(k.tickets)
	if t.job.First {
		l.first++
		if i := slices.IndexFunc(k.tickets, goesOn); i >= 0 {
			at = i
		}
	}
	k.tickets = slices.Insert(k.tickets, at, t)
	l.keys[t.job.Key] = k
	l.length++
}

// leave removes a ticket, and reports whether the ticket was in the queue.
func (l *line) leave(t *ticket) bool {
	k := l.keys[t.job.Key]
	i := slices.Index(k.tickets, t)
	if i < 0 {
		return false
	}
	k.tickets = slices.Delete(k.tickets, i, i+1)
	l.keys[t.job.Key] = k
	l.length--
	if t.job.First {
		l.first--
	}
	return true
}

// next removes and returns the ticket that gets the next worker. It returns nil if the queue is
// empty.
func (l *line) next() *ticket {
	var first *ticket
	var granted uint64
	for _, k := range l.keys { // the result does not depend on the order of iteration
		if len(k.tickets) == 0 {
			continue
		}
		head := k.tickets[k.head()]
		if first == nil || k.granted < granted ||
			k.granted == granted && head.arrived < first.arrived {
			first, granted = head, k.granted
		}
	}
	if first != nil {
		l.leave(first)
		l.count(first)
		l.grant(first.job.Key)
	}
	return first
}

// count counts how often in succession requests that had no worker yet passed other requests of
// their key.
func (l *line) count(t *ticket) {
	k := l.keys[t.job.Key]
	if t.job.First && slices.ContainsFunc(k.tickets, goesOn) {
		k.firsts++
	} else {
		k.firsts = 0
	}
	l.keys[t.job.Key] = k
}

// grant records that a key got a worker. If the queue is empty, it first forgets all earlier
// grants.
func (l *line) grant(key string) {
	if l.length == 0 {
		clear(l.keys)
	}
	if l.keys == nil {
		l.keys = map[string]turns{}
	}
	l.now++
	k := l.keys[key]
	k.granted = l.now
	l.keys[key] = k
}
