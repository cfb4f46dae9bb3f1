package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"
)

// A Feeder feeds a stream to a session exactly once: whatever happens on the way, each byte is in
// the session once, and each event is told once. It belongs to one goroutine.
type Feeder struct {
	o  FeedOptions // with defaults
	to delivery

	offset int64 // all before is in the session and has been told; -1: not known yet
	err    error // what has ended the feeding
}

// NewFeeder makes a feeder of a session, by its id or name. No request is made.
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

// Offset is where the session is: all before it has been taken in, and its events have been told.
// -1 if no text was fed yet, and FeedOptions named no offset.
func (f *Feeder) Offset() int64 { return f.offset }

// End tells of the line, or the record, under way: the text has ended, or is idle.
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

// shown is what has ended the feeding, as the caller is to see it.
func (f *Feeder) shown() error {
	if last, ok := errors.AsType[final](f.err); ok {
		return last.error
	}
	return f.err
}

// Feed feeds the next piece of the stream. When it returns nil the session has all of the text, and
// its events have been told. As long as the server cannot be reached, or has no time, Feed waits
// and tries again, until the context ends. After any error the feeder has ended, and how much of
// the text the session has is for the session to say.
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

// ask finds out where the session is, unless that is known.
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

// bounded bounds a call whose answer comes in one piece.
func (f *Feeder) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, f.o.Stall, errStalled)
}

// attempt brings a batch to its end, or to an error: the rest of it is sent, and what the session
// has taken without telling is told.
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

// resume takes in what the session says of its offset, where that may be the work of a request of
// the feeder's whose answer was lost.
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

// conflict makes a MovedError of the answer that the session is at an offset where it cannot be.
func (f *Feeder) conflict(b *batch, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Type == ProblemOffsetConflict && e.Offset != nil {
		return final{&MovedError{f.to.session, b.taken, *e.Offset}}
	}
	return err
}

// A fork that a replay makes has the label replayLabel. It is deleted when the replay ends, and by
// the server after replayTTLSeconds where the client was ended before.
const (
	replayLabel      = "replay-of"
	replayTTLSeconds = 3600
	replayTidyMax    = 10 * time.Second
)

// replayPatience is how long a replay waits for a server that has as many sessions as it may have.
const replayPatience = time.Minute

// Replay tells the events of a text that a session has taken in already, as they were told, or
// would have been. The text is the session's from the offset from on, and is scored with the
// options with which it was fed. So a program that was ended before it had dealt with all events
// gets them. They come from a fork of the session from there, which is deleted afterwards; the
// session stays as it is. A line under way at the end of the text is told, too, with Ended false.
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

// replay tells the events of what the session has of a batch, and has not told: a twin of the
// feeder feeds the text to a fork of the session from before it.
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

// lose reports that events cannot be made again, unless the caller has ended the feeding.
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

// fork forks the session at an offset, and gives the fork's id.
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

// discard deletes a fork, also where the feeding has been ended. Where that fails the server
// deletes the fork, in time.
func (f *Feeder) discard(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTidyMax)
	defer cancel()
	_ = f.to.c.DeleteSession(ctx, id)
}

// sameBits is how far two sums of bits may be apart that are those of the same text: servers of
// different processors round differently.
const sameBits = 1e-6

// compare holds the session against the fork that has got the text which the session should have
// got: of another text the model has other bits. A session that has gone on since cannot be
// compared.
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
