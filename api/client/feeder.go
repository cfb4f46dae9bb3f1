package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"
)

// A Feeder feeds a stream to a session exactly once: even after failures, each byte enters the
// session once, and each event is reported once. Only one goroutine may use a Feeder.
type Feeder struct {
	o  FeedOptions
	to delivery

	// text before this offset is in the session, and its events are reported; -1 means unknown
	offset int64
	err    error
}

// NewFeeder makes a feeder of a session, given by id or name. It makes no request.
func (c *Client) NewFeeder(session string, o FeedOptions) *Feeder {
	o = o.withDefaults()
	to := delivery{
		c: c, session: session, score: o.Score, event: o.Event, diverged: o.Diverged,
		stall: o.Stall,
	}
	f := &Feeder{o: o, to: to, offset: -1, err: o.validate()}
	if o.Score.Offset != nil {
		f.offset = *o.Score.Offset
	}
	return f
}

// Offset returns the session's offset: all text before it is in the session, and the events of that
// text have been reported. If FeedOptions gives no offset, Offset returns -1 until the first call
// of Feed.
func (f *Feeder) Offset() int64 { return f.offset }

// End reports the unfinished line or record at the end of the text. Call End when the text has
// ended or pauses.
func (f *Feeder) End() error {
	rest := f.to.rest
	f.to.rest = nil
	for _, l := range rest {
		if f.err != nil {
			break
		}
		if err := f.o.Event(Event{Line: l}); err != nil {
			return err
		}
	}
	return f.shown()
}

func (f *Feeder) shown() error {
	if last, ok := errors.AsType[final](f.err); ok {
		return last.error
	}
	return f.err
}

// Feed feeds the next piece of the stream. When it returns nil, the session has all of the text,
// and its events have been reported. While the server is unreachable or busy, Feed retries until
// the context ends. After any error the feeder is unusable; [Client.GetSession] returns how much
// text the session has.
func (f *Feeder) Feed(ctx context.Context, text []byte) error {
	for len(text) > 0 && f.err == nil {
		n := min(len(text), f.o.BatchBytes)
		f.err = f.batch(ctx, text[:n])
		text = text[n:]
	}
	return f.shown()
}

func (f *Feeder) batch(ctx context.Context, text []byte) error {
	err := persist(ctx, f.o.Waiting, func() (bool, error) { return false, f.ask(ctx) })
	if err != nil {
		return err
	}
	b := &batch{text: text, begin: f.offset, taken: f.offset, told: f.offset}
	err = persist(ctx, f.o.Waiting, func() (bool, error) {
		before := *b
		err := f.attempt(ctx, b)
		return b.taken > before.taken || b.told > before.told, err
	})
	f.offset = b.told
	return err
}

func (f *Feeder) ask(ctx context.Context) error {
	if f.offset >= 0 {
		return nil
	}
	s, err := f.session(ctx)
	if err == nil {
		f.offset = s.Offset
	}
	return err
}

func (f *Feeder) session(ctx context.Context) (Session, error) {
	ctx, cancel := f.bounded(ctx)
	defer cancel()
	return f.to.c.GetSession(ctx, f.to.session)
}

// bounded returns a context that ends after FeedOptions.Stall, for a request with a short answer.
func (f *Feeder) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, f.o.Stall, errStalled)
}

// attempt delivers a batch, until the batch is complete or an error occurs. It first reports the
// events of text that the session already has, and then sends the rest of the batch.
func (f *Feeder) attempt(ctx context.Context, b *batch) error {
	for {
		if b.told < b.taken {
			if err := f.replay(ctx, b); err != nil {
				return err
			}
		}
		if b.taken == b.end() {
			return nil
		}
		err := f.to.send(ctx, b)
		if err != nil && !f.resume(b, err) {
			return f.conflict(b, err)
		}
	}
}

// resume handles an offset conflict. An earlier request of this feeder, whose answer was lost, may
// have caused the conflict. In that case resume continues from the session's actual offset and
// returns true.
func (f *Feeder) resume(b *batch, err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Type != ProblemOffsetConflict || e.Offset == nil {
		return false
	}
	if !b.unsure || *e.Offset <= b.taken || *e.Offset > b.end() {
		return false
	}
	b.taken = *e.Offset
	return true
}

// conflict returns a MovedError if the session is at an offset that the feeder cannot have reached.
func (f *Feeder) conflict(b *batch, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Type == ProblemOffsetConflict && e.Offset != nil {
		return final{&MovedError{f.to.session, b.taken, *e.Offset}}
	}
	return err
}

// A replay labels its fork with replayLabel and deletes the fork at the end. If the client exits
// earlier, the server deletes the fork after replayTTLSeconds.
const (
	replayLabel      = "replay-of"
	replayTTLSeconds = 3600
	replayTidyMax    = 10 * time.Second
)

// replayPatience is how long a replay retries to create its fork while the server is at its session
// limit.
const replayPatience = time.Minute

// Replay reports the events of text that a session already has, exactly as feeding reported them.
// With Replay, a restarted program can get events that it had not handled. The text begins at
// offset `from` of the session, and o must be the options with which the text was fed. The events
// come from a temporary fork, so the session does not change. An unfinished line at the end is
// reported with Ended false.
func (c *Client) Replay(
	ctx context.Context, session string, from int64, text []byte, o FeedOptions,
) error {
	f := c.NewFeeder(session, o)
	if f.err == nil {
		f.err = f.replay(ctx, &batch{text: text, begin: from, taken: from + int64(len(text)),
			told: from})
	}
	return f.End()
}

// replay reports the unreported events of a batch's text that the session already has. It forks the
// session at the beginning of this text, and a second feeder feeds the text to the fork.
func (f *Feeder) replay(ctx context.Context, b *batch) error {
	id, err := f.fork(ctx, b.told)
	if err != nil {
		return f.lose(ctx, b, err)
	}
	defer f.discard(ctx, id)
	o := f.o
	o.Score.Offset = &b.told
	o.Lost = func(e *LostError) error {
		e.Session = f.to.session
		return f.o.Lost(e)
	}
	twin := f.to.c.NewFeeder(id, o)
	twin.to.next = f.to.next
	_ = twin.Feed(ctx, b.from(b.told, b.taken))
	b.told = twin.offset
	if twin.err != nil {
		return f.lose(ctx, b, twin.err)
	}
	f.to.rest, f.to.next = twin.to.rest, twin.to.next
	return f.compare(ctx, b, twin.to.totals)
}

// lose calls FeedOptions.Lost, because events cannot be recomputed. It returns err instead if the
// context has ended or the caller's function failed.
func (f *Feeder) lose(ctx context.Context, b *batch, err error) error {
	var last final
	if errors.As(err, &last) || ctx.Err() != nil {
		return err
	}
	if err := f.o.Lost(&LostError{f.to.session, b.told, b.taken, err}); err != nil {
		return final{err}
	}
	f.to.rest, b.told = nil, b.taken
	return nil
}

func (f *Feeder) fork(ctx context.Context, at int64) (id string, err error) {
	request := ForkRequest{
		AtOffset: &at, History: new(HistoryTail), TTLSeconds: new(int64(replayTTLSeconds)),
		Labels: &Labels{replayLabel: f.to.session},
	}
	begun := time.Now()
	var full error
	err = persist(ctx, f.o.Waiting, func() (bool, error) {
		ctx, cancel := f.bounded(ctx)
		defer cancel()
		s, err := f.to.c.ForkSession(ctx, f.to.session, request)
		if Is(err, ProblemSessionLimit) && time.Since(begun) > replayPatience {
			full = err
			return false, nil
		}
		id = s.ID
		return false, err
	})
	return id, cmp.Or(err, full)
}

// discard deletes a fork, even if the context has ended. If the deletion fails, the fork expires
// later.
func (f *Feeder) discard(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTidyMax)
	defer cancel()
	_ = f.to.c.DeleteSession(ctx, id)
}

// sameBits is the relative tolerance for comparing the bits of equal texts. The bits may differ
// slightly, because servers with different processors round differently.
const sameBits = 1e-6

// compare compares the bits of the session and of a fork that was fed the intended text. Different
// bits mean that the session has a different text; then compare returns a MovedError. If the
// session has received more text in the meantime, compare does nothing.
func (f *Feeder) compare(ctx context.Context, b *batch, forks *Measures) error {
	s, err := f.session(ctx)
	if err != nil || s.Offset != b.taken || forks == nil {
		return nil
	}
	if math.Abs(s.Totals.Bits-forks.Bits) > sameBits*math.Abs(s.Totals.Bits) {
		return final{&MovedError{f.to.session, b.taken, s.Offset}}
	}
	return nil
}
