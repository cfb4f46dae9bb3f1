package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// engine is what every request at work on a session is handed: the host, and the line in front of
// it.
type engine struct {
	*host
	models  models // the default first
	waiting queue
	textMax int64         // bytes of text that a session can have
	packing chan struct{} // holds a token for every file that is being packed or parsed
	imports Progress

	// scoreRecovery and forkRecovery are the limits of that name; tests set them.
	scoreRecovery, forkRecovery time.Duration
}

// maxWaitOf is how long a request waits for a state that is being computed again: as long as it
// says, and scoreRecovery at least; 0, as long as it takes, if it does not say.
func (e *engine) maxWaitOf(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return max(e.scoreRecovery, wait)
}

// packs runs f, which packs or parses the file of an export or an import: computing that may take
// seconds, and that no worker does. Few such at once leave the processors to the workers, however
// many files a key sends or asks for. f must not wait for a client.
func (e *engine) packs(ctx context.Context, f func() error) error {
	select {
	case e.packing <- struct{}{}:
		defer func() { <-e.packing }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaseLocked waits for a worker for a session. admitted is the request's, see queue.
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

// workerFor waits for a worker for a session that is admitted; first says whether it is the
// request's first.
func (e *engine) workerFor(
	ctx context.Context, s *session, first bool,
) (*scheduler.Lease, error) {
	begun, job := time.Now(), s.job()
	job.First = first
	l, err := e.scheduler.Lease(ctx, job)
	phaseSince(ctx, e.observer, PhaseQueue, begun)
	return l, err
}

// openWithWorker waits for a session's stream, which it locks, and for a worker. The computing of
// the stream may take as long as a limit, see session.open.
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

// fit gives as much of a text as the session can have. It fails when the session was deleted, and
// when it is full.
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

// pieceMax is the most bytes of text that are scored as one: those of a chunk of bytes, or of
// words as many as are read at once.
func (e *engine) pieceMax(s *session) int {
	if s.model.OfWords() {
		return readBufferBytes
	}
	return s.Settings.Chunk
}

// chargeRecords takes memory for records of so many bytes, see recordSize.
func (e *engine) chargeRecords(s *session, bytes, records int) error {
	return memoryError(s.memory.Charge(textBytes(e.store, bytes, records)))
}

// diskFor says why there is no room on the disk for records more of a session.
func (e *engine) diskFor(s *session, bytes, records int) error {
	return e.disk.Room(s.Owner, int64(records)*storage.RecordCharge+int64(bytes))
}

// refund gives memory for a record of so many bytes back.
func (e *engine) refund(s *session, bytes int) {
	s.memory.Refund(textBytes(e.store, bytes, 1))
}

// saveAll takes snapshots of what is hot, when nobody is at work any more. What the context leaves
// out is computed again after a restart.
func (e *engine) saveAll(ctx context.Context) {
	for {
		s, ok := e.budget.Victim()
		if !ok || s.lock(ctx) != nil {
			return
		}
		s.saveLocked(context.Background())
		<-s.state // a session that stays hot does not come up again
	}
}
