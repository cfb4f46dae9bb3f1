package session

import "sync"

// queue limits how many requests wait for a session's stream or for a worker. A request that was
// admitted once is never refused later, so that work in progress is completed.
//
// When the queue is full, a key is still admitted if it has less than its equal share of the
// places.
type queue struct {
	max int

	mu struct {
		sync.Mutex
		waiting int            // waiting requests of all keys
		of      map[string]int // waiting requests per key
	}
}

// wait calls f, which may block, and counts the request as waiting meanwhile. If the queue is full
// and the request was not admitted before, the error is ErrOverloaded.
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
