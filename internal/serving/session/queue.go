package session

import "sync"

// queue limits how many requests wait for a session's stream or for a worker. A request that has
// waited once is never refused later: work that has begun is completed.
//
// When the queue is full, each waiting key has an equal share of it. A key with less than its share
// is still admitted.
type queue struct {
	max int

	mu struct {
		sync.Mutex
		waiting int            // requests
		of      map[string]int // requests of each key that has any
	}
}

// wait runs f, which waits, for a request of a key's session. If the queue is full, a request that
// is not admitted yet gets ErrOverloaded.
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
