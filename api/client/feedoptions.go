package client

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults of FeedOptions.
const (
	BatchBytesDefault = 16 << 10
	StallDefault      = 2 * time.Minute
)

// FeedOptions configures how a stream is fed, and who receives its events.
type FeedOptions struct {
	// Score configures the scoring. Its Offset is the offset that the session must have at the
	// start; nil accepts any offset. Learn must not be LearnFalse, because the text must enter the
	// session.
	Score ScoreOptions

	// Event receives the event of each chunk, or of each finished line, once and in order. If it
	// returns an error, feeding ends with that error. A nil Event drops all events.
	Event func(Event) error

	// Lost is called if the session has a part of the text whose events were lost and cannot be
	// recomputed. If it returns nil, feeding continues. If Lost is nil, feeding ends with the
	// *LostError.
	Lost func(*LostError) error

	// Waiting, if not nil, is called before the feeder pauses to retry, with the cause and the
	// pause.
	Waiting func(cause error, pause time.Duration)

	// Diverged, if not nil, is called after a request in which the session's fast weights diverged
	// and were reset. The argument is the number of resets.
	Diverged func(int64)

	BatchBytes int // maximum bytes of text in one request; 0 means BatchBytesDefault
	// Stall is the time without progress after which an answer is abandoned; 0 means StallDefault.
	Stall time.Duration
}

func (o FeedOptions) withDefaults() FeedOptions {
	if o.Event == nil {
		o.Event = func(Event) error { return nil }
	}
	if o.Lost == nil {
		o.Lost = func(e *LostError) error { return e }
	}
	if o.Waiting == nil {
		o.Waiting = func(error, time.Duration) {}
	}
	if o.Diverged == nil {
		o.Diverged = func(int64) {}
	}
	o.BatchBytes, o.Stall = cmp.Or(o.BatchBytes, BatchBytesDefault), cmp.Or(o.Stall, StallDefault)
	return o
}

func (o FeedOptions) validate() error {
	switch {
	case o.Score.Learn == LearnFalse:
		return fmt.Errorf("client: feeding: found learn=%s, expected true or unflagged, because "+
			"the session must keep the text", LearnFalse)
	case o.BatchBytes < 0 || o.Stall < 0:
		return fmt.Errorf(
			"client: feeding: found BatchBytes %d and Stall %v, expected 0 or more for both",
			o.BatchBytes, o.Stall)
	}
	return nil
}

// A MovedError reports that another client feeds the session: this feeder alone cannot have caused
// the session's offset or text.
type MovedError struct {
	Session         string
	Expected, Found int64 // offsets in bytes; equal if only the texts differ
}

func (e *MovedError) Error() string {
	if e.Expected == e.Found {
		return fmt.Sprintf("client: the text of session %s up to offset %d differs from the "+
			"text that this client fed: another client feeds the session", e.Session, e.Found)
	}
	return fmt.Sprintf("client: session %s is at offset %d, expected %d: another client feeds "+
		"the session",
		e.Session, e.Found, e.Expected)
}

// A LostError reports that a session has a part of the text whose events were lost.
type LostError struct {
	Session  string
	From, To int64
	Err      error
}

func (e *LostError) Error() string {
	return fmt.Sprintf(
		"client: session %s has the text from offset %d to %d, but the events of this text "+
			"were lost and cannot be recomputed: %v", e.Session, e.From, e.To, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }
