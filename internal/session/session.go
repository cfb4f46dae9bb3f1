package session

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// session is one session, hot (its stream is in memory) or cold. Three things guard its parts, always taken in this order: feeding, state,
// Manager.mu.
type session struct {
	head       // Numerics changes under state and Manager.mu, the rest never
	bad  error // why it cannot be used; nil if it can

	// feeding is set while a request feeds the session: only that request moves the offset. It is held for the length of the request, and
	// nobody waits for it.
	feeding atomic.Bool

	// state holds one token while a chunk, or a completion, is at work on the stream. It is a channel so that waiting can be given up; those
	// that wait get it in the order they came.
	state  chan struct{}
	stream *stream.Stream // nil: cold
	epoch  uint64         // under which the store lets it be written; 0: not claimed yet
	rms    float64        // root mean square of the fast weights
	replay time.Duration  // computing since the last snapshot: what a recovery would repeat
	due    time.Duration  // the replay at which a snapshot is taken; 0 is Options.ReplayMax

	// Guarded by Manager.mu.
	seen     progress
	users    int // requests at work on it: it does not expire
	lastUsed time.Time
	turn     uint64 // the larger, the later it was used
	reserved int64  // of Options.MaxMemoryBytes
	gone     bool
}

// progress is what the world sees of a stream: as it was after the last thing that was accepted.
type progress struct {
	offset          int64
	updates         uint64
	pending         int
	tally, baseline tokenizer.Tally
	blind           bool // the bits are not known: a fork's text before its first record
}

// lock waits for the session's state; the context ends the wait.
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

// tryLock locks if nobody has to be waited for.
func (s *session) tryLock() bool {
	select {
	case s.state <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *session) unlock() { <-s.state }

// job is what the session wants a worker for.
func (s *session) job() job { return job{session: s.ID, chunk: s.Settings.Chunk} }

// progress needs the lock and the stream.
func (s *session) progress() progress {
	t := s.stream
	return progress{offset: t.Tally.Bytes, updates: t.Updates(), pending: len(t.Pending), tally: t.Tally, baseline: t.Baseline}
}

// stored is the progress of a session of which only head and last record are known.
func (h *head) stored(found sessionlog.Session) progress {
	n, chunk := found.End, int64(h.Settings.Chunk)
	t := tokenizer.Tally{Bytes: n, Chars: n, Tokens: n} // a token is a byte
	p := progress{offset: n, pending: int(n % chunk), tally: t, blind: n > 0 && found.Last == nil}
	if m := h.Settings.Method; m != stream.Static && m != stream.Cache {
		p.updates = uint64(n / chunk)
	}
	if h.Settings.Baseline {
		p.baseline = t
	}
	if r := found.Last; r != nil {
		p.tally.Bits = r.Bits
		if h.Settings.Baseline {
			p.baseline.Bits = r.Baseline
		}
	}
	return p
}

// settle ends the chunk if it is full; it needs the lock.
func (s *session) settle(w *stream.Worker) {
	if s.stream.Room() == 0 {
		begun := time.Now()
		w.Settle(s.stream)
		s.rms = s.stream.FastRMS()
		s.replay += time.Since(begun)
	}
}

// info is what a caller is told; it needs Manager.mu.
func (s *session) info(who Caller) Info {
	i := Info{
		ID:          s.ID,
		Model:       s.Model.id(),
		Created:     s.Created,
		LastUsed:    s.lastUsed,
		Offset:      s.seen.offset,
		Step:        s.seen.updates,
		Pending:     s.seen.pending,
		Tally:       s.tally(s.seen.tally, s.seen.baseline.Bits),
		MemoryBytes: s.reserved,
		Settings:    reported(s.Settings),
		Seed:        s.Settings.Seed,
		Labels:      maps.Clone(s.Labels),
		TTL:         s.TTL,
		History:     s.History,
		Parent:      s.Parent,
		Err:         s.bad,
	}
	if len(s.Numerics) > 0 { // else its head is damaged
		i.Numerics = s.numerics().Name
	}
	if who.Admin {
		i.Owner = s.Owner
	}
	return i
}

// id is ModelInfo.ID.
func (m modelName) id() string {
	if len(m.Hash) < 12 {
		return m.Name
	}
	return m.Name + "-" + m.Hash[:12]
}

// tally is the account that callers see, of a text and its bits under the static model.
func (h *head) tally(t tokenizer.Tally, baseline float64) Tally {
	told := Tally{Bytes: t.Bytes, Chars: t.Chars, Tokens: t.Tokens, Bits: t.Bits}
	if h.Settings.Baseline {
		told.BaselineBits = &baseline
	}
	return told
}
