package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// engine holds what every request that computes on a session needs: the host and the queue for
// workers.
type engine struct {
	*host
	models  models // the default first
	waiting queue
	textMax int64         // bytes of text that a session can have
	packing chan struct{} // holds a token for each file that is being packed or parsed
	imports Progress

	// limits on the wait for a recovery; see the constants of these names. Tests set them.
	scoreRecovery, forkRecovery time.Duration
}

// maxWaitOf returns how long a request may wait for the recovery of a state: as long as the request
// says, and at least scoreRecovery. If the request does not say, maxWaitOf returns 0, which means
// without limit.
func (e *engine) maxWaitOf(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return max(e.scoreRecovery, wait)
}

// packs runs f, which packs or parses the file of an export or an import. That may compute for
// seconds, outside the workers. Only a few run at once, so that the workers keep their processors
// however many files a key sends or requests. f must not wait for a client.
func (e *engine) packs(ctx context.Context, f func() error) error {
	select {
	case e.packing <- struct{}{}:
		defer func() { <-e.packing }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaseLocked waits for a worker for a session. admitted says whether the request has already
// waited in the queue; see queue.
func (e *engine) leaseLocked(
	ctx context.Context, s *session, admitted *bool,
) (l *scheduler.Lease, err error) {
	first := !*admitted
	err = e.waiting.wait(s.Owner, admitted, func() (err error) {
		l, err = e.workerFor(ctx, s, first)
		return err
	})
	return l, err
}

// workerFor waits for a worker for an admitted session. first reports whether it is the request's
// first worker.
func (e *engine) workerFor(
	ctx context.Context, s *session, first bool,
) (*scheduler.Lease, error) {
	begun, job := time.Now(), s.job()
	job.First = first
	l, err := e.scheduler.Lease(ctx, job)
	phaseSince(ctx, e.observer, PhaseQueue, begun)
	return l, err
}

// openWithWorker waits for a session's stream, which it locks, and for a worker. The recovery of
// the stream may take up to the limit; see session.open.
func (e *engine) openWithWorker(
	ctx context.Context, s *session, admitted *bool, limit time.Duration,
) (l *scheduler.Lease, err error) {
	first := !*admitted
	err = e.waiting.wait(s.Owner, admitted, func() error {
		if err := s.open(ctx, limit); err != nil {
			return err
		}
		if l, err = e.workerFor(ctx, s, first); err != nil {
			s.unlock()
		}
		return err
	})
	return l, err
}

// fit returns the part of a text that the session has room for. It fails if the session is full or
// was deleted.
func (e *engine) fit(s *session, text []byte) ([]byte, error) {
	have := s.seen().offset
	left := e.textMax - have
	if err := s.alive(); err != nil {
		return nil, err
	}
	if left <= 0 {
		return nil, &LimitError{Offset: have, Max: e.textMax}
	}
	return text[:min(int64(len(text)), left)], nil
}

// pieceMax returns the most bytes of text that are scored at once: a chunk of bytes, or the words
// that are read at once.
func (e *engine) pieceMax(s *session) int {
	if s.model.OfWords() {
		return readBufferBytes
	}
	return s.Settings.Chunk
}

// chargeRecords reserves memory for records of the given total size; see recordSize.
func (e *engine) chargeRecords(s *session, bytes, records int) error {
	return memoryError(s.memory.Charge(textBytes(e.store, bytes, records)))
}

// diskFor returns why the disk has no room for more records of a session.
func (e *engine) diskFor(s *session, bytes, records int) error {
	return e.disk.Room(s.Owner, int64(records)*storage.RecordCharge+int64(bytes))
}

// refund releases the memory of a record of the given size.
func (e *engine) refund(s *session, bytes int) {
	s.memory.Refund(textBytes(e.store, bytes, 1))
}

// saveAll writes snapshots of the sessions in memory, after all work has ended. If the context ends
// it, a restart recomputes the rest.
func (e *engine) saveAll(ctx context.Context) {
	for {
		s, ok := e.budget.Victim()
		if !ok || s.lock(ctx) != nil {
			return
		}
		s.saveLocked(context.Background())
		<-s.state // a session that stays in memory is not listed again
	}
}
