package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// engine contains what requests share when they compute on sessions, such as the queue for workers.
type engine struct {
	*host
	models  models // the first is the default
	waiting queue
	textMax int64         // limit on the bytes of text of a session
	packing chan struct{} // semaphore: one token per file being packed or parsed
	imports Progress

	// Limits on the time that a request waits for a recovery. The default values are the constants
	// with these names; tests set other values.
	scoreRecovery, forkRecovery time.Duration
}

// maxWaitOf returns how long a request may wait for the recovery of a state. The result is the time
// that the request sets, but at least scoreRecovery. The value 0 means no limit, in the request and
// in the result.
func (e *engine) maxWaitOf(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return max(e.scoreRecovery, wait)
}

// packs runs f, which packs or parses the file of an export or an import. Such work may take
// seconds of processor time, and does not run on workers. Only a few such calls run at once, so
// that enough processors remain for the workers. f must not wait for a client.
func (e *engine) packs(ctx context.Context, f func() error) error {
	select {
	case e.packing <- struct{}{}:
		defer func() { <-e.packing }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaseLocked waits for a worker for a session. If *admitted is false, the request first waits in
// the queue of requests, and *admitted becomes true.
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

// openCurrent waits in the queue of requests, and then opens a session as session.openCurrent does.
// *admitted becomes true. limit is the longest time for a recovery of the stream.
func (e *engine) openCurrent(
	ctx context.Context, s *session, admitted *bool, limit time.Duration,
) error {
	return e.waiting.wait(s.Owner, admitted, func() error { return s.openCurrent(ctx, limit) })
}

// workerFor waits for a worker for a session. The request must have passed the queue. first is true
// for the request's first worker.
func (e *engine) workerFor(
	ctx context.Context, s *session, first bool,
) (*scheduler.Lease, error) {
	begun, job := time.Now(), s.job()
	job.First = first
	l, err := e.scheduler.Lease(ctx, job)
	phaseSince(ctx, e.observer, PhaseQueue, begun)
	return l, err
}

// openWithWorker opens and locks a session's stream, and waits for a worker. limit is the longest
// time for a recovery of the stream; see session.open.
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

// fit returns the first part of a text, as far as the session has space for it. It returns an error
// if the session is full or was deleted.
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

// pieceMax returns the largest number of bytes that are scored at once. This is a chunk or, if
// tokens are words, the size of a read buffer.
func (e *engine) pieceMax(s *session) int {
	if s.model.OfWords() {
		return readBufferBytes
	}
	return s.Settings.Chunk
}

func (e *engine) chargeRecords(s *session, bytes, records int) error {
	return memoryError(s.memory.Charge(textBytes(e.store, bytes, records)))
}

// diskFor returns an error if the disk has too little space for the records of a session. bytes is
// the total size of the records.
func (e *engine) diskFor(s *session, bytes, records int) error {
	return e.disk.Room(s.Owner, int64(records)*storage.RecordCharge+int64(bytes))
}

// saveAll writes snapshots of all sessions in memory. The server calls saveAll after all other
// work. If the context ends early, a restart recomputes the states that were not saved.
func (e *engine) saveAll(ctx context.Context) {
	for {
		s, ok := e.budget.Victim()
		if !ok || s.lock(ctx) != nil {
			return
		}
		s.saveLocked(context.Background())
		<-s.state // unlocks the session without making it idle, so it is saved only once
	}
}
