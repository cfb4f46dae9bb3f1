package sessionlog

import (
	"sync"

	"go.etcd.io/bbolt"
)

// write is one call's part of a commit.
type write struct {
	do    func(tx *bbolt.Tx) error // an error refuses the call: then do must have changed nothing
	undo  func()                   // called after a commit that did not happen; nil: nothing is undone
	then  func() error             // called after the commit; nil: nothing follows
	drops bool                     // records; do must not look for the end of a log
	erase bool                     // free pages before the call returns
	// inspect is no write: it checks the database's structure while nothing is written.
	inspect bool
	err     error
	done    chan struct{}
}

// queue holds the writes that wait for the next commit.
type queue struct {
	mu      sync.Mutex
	waiting []*write
	closed  bool
	wake    chan struct{} // holds a token when there may be something to do
}

func (q *queue) enqueue(w *write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.waiting = append(q.waiting, w)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a write back, unless it is under way.
func (q *queue) withdraw(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.waiting {
		if q.waiting[i] == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// batch gives everything that waits, and whether more may come.
func (q *queue) batch() (batch []*write, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, q.waiting = q.waiting, nil
	return batch, !q.closed
}

// close makes enqueue refuse, and reports false if it did so already.
func (q *queue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.closed
	q.closed = true
	return !was
}
