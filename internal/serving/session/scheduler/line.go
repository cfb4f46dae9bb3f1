package scheduler

import "slices"

// ticket is a place in the queue.
type ticket struct {
	job     Job
	ready   chan *slot // its buffer has a place for the slot, so that granting never waits
	arrived uint64     // age of the ticket: an older one has a lower number
}

// line is the queue for workers. The next worker goes to the key that got its last worker the
// longest time ago, and there to the oldest ticket. So while a key waits, each other key gets at
// most one worker, however many sessions it has in the queue.
//
// Within a key, requests that have not had a worker come first: a short one does not wait for the
// turns of long ones. One of firstsInRow + 1 grants goes to the other requests of the key, so that
// they do not starve.
type line struct {
	// keys has the keys that wait, and the keys whose last grant still matters; see grant.
	keys   map[string]turns
	length int    // tickets
	first  int    // tickets of requests that have not had a worker
	now    uint64 // counts arrivals and grants
}

// firstsInRow is how many grants in a row go to requests that have not had a worker, while another
// request of the key waits.
const firstsInRow = 3

// turns is the state of a key in the queue.
type turns struct {
	// first the tickets of requests that have not had a worker, then the others; each group in
	// order of arrival
	tickets []*ticket
	granted uint64 // when the key last got a worker; 0 if that no longer matters
	firsts  int    // grants in a row to requests that had not had a worker, while others waited
}

// head returns the index of the key's next ticket.
func (k *turns) head() int {
	if k.firsts < firstsInRow {
		return 0
	}
	return max(0, slices.IndexFunc(k.tickets, goesOn))
}

func goesOn(t *ticket) bool { return !t.job.First }

// join appends a ticket to those of its key.
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

// leave removes a ticket, and reports whether it was there.
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

// next removes the next ticket to get a worker; nil if the queue is empty.
func (l *line) next() *ticket {
	var first *ticket
	var granted uint64
	for _, k := range l.keys { // the choice does not depend on the order of the map
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

// count records whether a grant to a request's first ticket made other requests of its key wait.
func (l *line) count(t *ticket) {
	k := l.keys[t.job.Key]
	if t.job.First && slices.ContainsFunc(k.tickets, goesOn) {
		k.firsts++
	} else {
		k.firsts = 0
	}
	l.keys[t.job.Key] = k
}

// grant records that a key got a worker. When the queue is empty, earlier grants no longer matter.
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
