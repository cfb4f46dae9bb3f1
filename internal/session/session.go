package session

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// session is one live session. Three things guard its parts, always taken in this order: feeding, state, Manager.mu.
type session struct {
	id       string
	owner    string // Caller.Key of who made it
	created  time.Time
	settings stream.Settings // in force
	labels   map[string]string
	ttl      time.Duration

	// feeding is set while a request feeds the session: only that request moves the offset. It is held for the length of the request, and
	// nobody waits for it.
	feeding atomic.Bool

	// state holds one token while a chunk, or a completion, is at work on the stream. It is a channel so that waiting can be given up; those
	// that wait get it in the order they came.
	state  chan struct{}
	stream *stream.Stream
	log    Log
	rms    float64 // root mean square of the fast weights

	// Guarded by Manager.mu.
	seen     progress
	users    int // requests at work on it: it does not expire
	lastUsed time.Time
	reserved int64 // of Options.MaxMemoryBytes
	gone     bool
}

// progress is what the world sees of a stream: as it was after the last thing that was accepted.
type progress struct {
	offset          int64
	updates         uint64
	pending         int
	tally, baseline tokenizer.Tally
}

// lock waits for the stream; the context ends the wait.
func (s *session) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.state <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) unlock() { <-s.state }

// job is what the session wants a worker for.
func (s *session) job() job { return job{session: s.id, chunk: s.settings.Chunk} }

// progress needs the lock.
func (s *session) progress() progress {
	return progress{offset: s.log.Size(), updates: s.stream.Updates(), pending: len(s.stream.Pending), tally: s.stream.Tally, baseline: s.stream.Baseline}
}

// settle ends the chunk if it is full; it needs the lock.
func (s *session) settle(w *stream.Worker) {
	if s.stream.Room() == 0 {
		w.Settle(s.stream)
		s.rms = s.stream.FastRMS()
	}
}

// info is what a caller is told; it needs Manager.mu.
func (s *session) info(who Caller, model, numerics string) Info {
	i := Info{
		ID:           s.id,
		Model:        model,
		Created:      s.created,
		LastUsed:     s.lastUsed,
		Offset:       s.seen.offset,
		Step:         s.seen.updates,
		Pending:      s.seen.pending,
		Chars:        s.seen.tally.Chars,
		Tokens:       s.seen.tally.Tokens,
		Bits:         s.seen.tally.Bits,
		BaselineBits: when(s.settings.Baseline, s.seen.baseline.Bits),
		MemoryBytes:  s.reserved,
		Numerics:     numerics,
		Settings:     reported(s.settings),
		Seed:         s.settings.Seed,
		Labels:       maps.Clone(s.labels),
		TTL:          s.ttl,
	}
	if who.Admin {
		i.Owner = s.owner
	}
	return i
}

// when gives a pointer to v if a field is there at all.
func when(there bool, v float64) *float64 {
	if !there {
		return nil
	}
	return &v
}
