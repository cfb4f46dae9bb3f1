package scheduler

import "slices"

// ticket is a place in the line.
type ticket struct {
	job     Job
	ready   chan *slot // has room for the one slot it will get
	arrived uint64     // tells tickets apart by age: an older one has the lower number
}

// line is who waits for a worker. It is shared by key first: the next worker goes to the key that
// was granted one the longest time ago, and there to the ticket that came first. So a key that
// waits sees each other key granted one worker at most before it is granted one itself, however
// many sessions the others have in line.
type line struct {
	// keys has the keys that wait, and those that were granted a worker since somebody has waited.
	keys   map[string]turns
	length int    // tickets
	now    uint64 // counts arrivals and grants
}

// turns is what the line knows of a key.
type turns struct {
	tickets []*ticket // in the order they came
	granted uint64    // when the key was granted a worker last; 0: not since somebody has waited
}

// join puts a ticket at the end of its key's.
func (l *line) join(t *ticket) {
	if l.keys == nil {
		l.keys = map[string]turns{}
	}
	l.now++
	t.arrived = l.now
	k := l.keys[t.job.Key]
	k.tickets = append(k.tickets, t)
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
		head := k.tickets[0]
		if first == nil || k.granted < granted ||
			k.granted == granted && head.arrived < first.arrived {
			first, granted = head, k.granted
		}
	}
	if first != nil {
		l.leave(first)
		l.grant(first.job.Key)
	}
	return first
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
