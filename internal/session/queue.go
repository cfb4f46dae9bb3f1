package session

import "sync/atomic"

// queue bounds how many requests wait for a session's stream or for a worker. A request that has
// waited once is admitted and never refused again: what has begun ends, and how many requests have
// begun is bounded where requests come in.
type queue struct {
	most    int
	waiting atomic.Int64
}

// wait runs f, which waits. A request that is not admitted yet gets ErrOverloaded instead if the
// queue is full.
func (q *queue) wait(admitted *bool, f func() error) error {
	defer q.waiting.Add(-1)
	if before := q.waiting.Add(1) - 1; before >= int64(q.most) && !*admitted {
		return ErrOverloaded
	}
	*admitted = true
	return f()
}
