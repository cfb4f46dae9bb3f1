package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// A fork that a replay makes has the label replayLabel. It is deleted when the replay ends, and by the
// server after replayTTLSeconds where the client was ended before.
const (
	replayLabel      = "replay-of"
	replayTTLSeconds = 3600
	replayTidyMax    = 10 * time.Second
)

// replayPatience is how long a replay waits for a server that has as many sessions as it may have.
const replayPatience = time.Minute

// Replay tells the events of a text that a session has taken in already, as they were told, or would
// have been. The text is the session's from the offset from on, and is scored with the options with
// which it was fed. So a program that was ended before it had dealt with all events gets them. They
// come from a fork of the session from there, which is deleted afterwards; the session stays as it
// is. A line under way at the end of the text is told, too, with Ended false.
func (c *Client) Replay(
	ctx context.Context, session string, from int64, text []byte, o FeedOptions,
) error {
	f := c.NewFeeder(session, o)
	if f.err == nil {
		f.err = f.replay(ctx, &batch{text: text, begin: from, taken: from + int64(len(text)), told: from})
	}
	return f.End()
}

// replay tells the events of what the session has of a batch, and has not told.
func (f *Feeder) replay(ctx context.Context, b *batch) error {
	twin, err := f.twin(ctx, b.told, b.from(b.told, b.taken))
	b.told = max(b.told, twin.offset)
	var callback told
	switch {
	case err == nil:
		f.rest = twin.rest
		return f.compare(ctx, b, twin)
	case errors.As(err, &callback), ctx.Err() != nil:
		return err
	}
	if err := f.o.Lost(&LostError{f.session, b.told, b.taken, err}); err != nil {
		return told{err}
	}
	f.rest, b.told = nil, b.taken
	return nil
}

// twin feeds a text to a fork of the session from an offset, and gives its feeder, which has ended.
func (f *Feeder) twin(ctx context.Context, from int64, text []byte) (*Feeder, error) {
	o := f.o
	o.Score.Offset = &from
	o.Lost = func(e *LostError) error {
		e.Session = f.session
		return f.o.Lost(e)
	}
	id, err := f.fork(ctx, from)
	twin := f.c.NewFeeder(id, o)
	if err != nil {
		return twin, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTidyMax)
		defer cancel()
		_ = f.c.DeleteSession(ctx, id) // otherwise the server deletes it, in time
	}()
	_ = twin.Feed(ctx, text)
	return twin, twin.err
}

// fork forks the session at an offset, and gives the fork's id.
func (f *Feeder) fork(ctx context.Context, at int64) (id string, err error) {
	request := ForkRequest{
		AtOffset: &at, History: new(HistoryTail), TTLSeconds: new(int64(replayTTLSeconds)),
		Labels: &Labels{replayLabel: f.session},
	}
	begun := time.Now()
	err = f.persist(ctx, func() (bool, error) {
		s, err := f.c.ForkSession(ctx, f.session, request)
		if Is(err, ProblemSessionLimit) && time.Since(begun) > replayPatience {
			return false, told{fmt.Errorf("client: no room for a fork: %w", err)}
		}
		id = s.ID
		return false, err
	})
	var gaveUp told
	if errors.As(err, &gaveUp) {
		err = gaveUp.error
	}
	return id, err
}

// sameBits is how far two sums of bits may be apart that are those of the same text: servers of
// different processors round differently.
const sameBits = 1e-6

// compare holds the session against the fork that has got the text which the session should have got:
// of another text the model has other bits. A session that has gone on since cannot be compared.
func (f *Feeder) compare(ctx context.Context, b *batch, twin *Feeder) error {
	s, err := f.c.GetSession(ctx, f.session)
	if err != nil || s.Offset != b.taken || twin.totals == nil {
		return nil
	}
	if math.Abs(s.Totals.Bits-twin.totals.Bits) > sameBits*math.Abs(s.Totals.Bits) {
		return &MovedError{f.session, b.taken, s.Offset}
	}
	return nil
}
