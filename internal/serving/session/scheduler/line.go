package scheduler

import "slices"

// ticket is a place in the line.
type ticket struct {
	job     Job
	ready   chan *slot // has room for the one slot it will get
	arrived uint64     // tells tickets apart by age: an older one has the lower number
}

// line is who waits for a worker. The next worker goes to the key that was granted one the longest
// time ago, and there to the ticket that came first. So a waiting key sees each other key granted
// at most one worker, however many sessions others have in line.
//
// Within a key, requests without a worker so far are first: a short one does not wait for the turns
// of long ones. One of firstsInRow + 1 grants is for the others, so that short requests do not keep
// them out.
type line struct {
	// keys has the keys that wait, and those that were granted a worker since somebody has waited.
	keys   map[string]turns
	length int    // tickets
	first  int    // tickets of requests that have had no worker yet
	now    uint64 // counts arrivals and grants
}

// firstsInRow is how many grants in a row requests get that have had no worker yet, while one that
// goes on waits.
const firstsInRow = 3

// turns is what the line knows of a key.
type turns struct {
	// those of requests that have had no worker yet, then others; in the order they came
	tickets []*ticket
	granted uint64 // when the key was granted a worker last; 0: not since somebody has waited
	firsts  int    // grants in a row to requests that had had no worker, while others waited
}

// head is the place of the ticket that is next in the key's row.
func (k *turns) head() int {
	if k.firsts < firstsInRow {
		return 0
	}
	return max(0, slices.IndexFunc(k.tickets, goesOn))
}

func goesOn(t *ticket) bool { return !t.job.First }

// join puts a ticket at the end of its key's.
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

// next removes the ticket that a worker is granted to; nil if nobody waits.
func (l *line) next() *ticket {
	var first *ticket
	var granted uint64
	for _, k := range l.keys { // the order of the map has no part in the choice
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

// count notes whether a ticket that has been first in line has kept others of its key waiting.
func (l *line) count(t *ticket) {
	k := l.keys[t.job.Key]
	if t.job.First && slices.ContainsFunc(k.tickets, goesOn) {
		k.firsts++
	} else {
		k.firsts = 0
	}
	l.keys[t.job.Key] = k
}

// grant notes that a key was granted a worker. Where nobody waits, what was granted before does not
// matter any more.
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
