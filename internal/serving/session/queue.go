package session

import "sync"

// queue limits how many requests wait for a session's stream or for a worker. A request that was
// admitted once is never refused later, so that work in progress is completed.
//
// A full queue still admits a request if the request's key has less than an equal share of the
// queue.
type queue struct {
	max int

	mu struct {
		sync.Mutex
		waiting int
		of      map[string]int // number of waiting requests of each key
	}
}

// wait calls f, which may block, and counts the request as waiting meanwhile. If the queue is full
// for the key and *admitted is false, wait returns ErrOverloaded. Otherwise wait sets *admitted to
// true.
func (q *queue) wait(key string, admitted *bool, f func() error) error {
	if !q.enter(key, *admitted) {
		return ErrOverloaded
	}
	defer q.leave(key)
	*admitted = true
	return f()
}

func (q *queue) enter(key string, admitted bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.of == nil {
		q.mu.of = map[string]int{}
	}
	n, waits := q.mu.of[key]
	keys := len(q.mu.of)
	if !waits {
		keys++
	}
	if full := q.mu.waiting >= q.max; full && n*keys >= q.max && !admitted {
		return false
	}
	q.mu.waiting++
	q.mu.of[key] = n + 1
	return true
}

func (q *queue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiting--
	if q.mu.of[key]--; q.mu.of[key] == 0 {
		delete(q.mu.of, key)
	}
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.waiting
}
