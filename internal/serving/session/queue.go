package session

import "sync"

// queue bounds how many requests wait for a session's stream or for a worker. A request that has
// waited once is never refused again: what has begun ends.
//
// When the queue is full, the keys that wait have equal parts of it: a key with less than its part
// still gets in.
type queue struct {
	max int

	mu struct {
		sync.Mutex
		waiting int            // requests
		of      map[string]int // the same of each key that has any
	}
}

// wait runs f, which waits, for a request of a key's session. A request that is not admitted yet
// gets ErrOverloaded instead if the queue is full.
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
