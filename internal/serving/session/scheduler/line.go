package scheduler

import "slices"

// ticket is a job's place in the queue.
type ticket struct {
	job     Job
	ready   chan *slot // buffered, so that sending the slot does not block
	arrived uint64
}

// line is the queue for workers. A free worker goes to the key that has waited longest since its
// last worker, and to the key's oldest ticket. So while a key waits, each other key gets at most
// one worker.
//
// Within a key, requests that have not had a worker yet come first. So a short request does not
// wait for long ones. After firstsInRow of these requests, another request of the key gets a
// worker, so that no request starves.
type line struct {
	// keys contains the keys in the queue, and the keys that got a worker since the queue was last
	// empty.
	keys   map[string]turns
	length int
	first  int
	now    uint64
}

// firstsInRow limits how many requests of a key in succession may get their first worker while its
// other requests wait.
const firstsInRow = 3

type turns struct {
	// tickets contains the requests that have not had a worker yet, followed by the other requests.
	// Each part is in order of arrival.
	tickets []*ticket
	granted uint64 // logical time of the key's last worker; 0 if the queue was empty after that
	firsts  int
}

func (k *turns) head() int {
	if k.firsts < firstsInRow {
		return 0
	}
	return max(0, slices.IndexFunc(k.tickets, goesOn))
}

func goesOn(t *ticket) bool { return !t.job.First }

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

func (l *line) next() *ticket {
	var first *ticket
	var granted uint64
	for _, k := range l.keys { // The result does not depend on the order of iteration.
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

// count counts how many requests without a worker so far have passed other requests of their key in
// succession.
func (l *line) count(t *ticket) {
	k := l.keys[t.job.Key]
	if t.job.First && slices.ContainsFunc(k.tickets, goesOn) {
		k.firsts++
	} else {
		k.firsts = 0
	}
	l.keys[t.job.Key] = k
}

// grant records that a key got a worker. If the queue is empty, grant first deletes all earlier
// records.
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
