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

// FeedOptions say how a stream is fed, and who is told of it.
type FeedOptions struct {
	// Score says how the text is scored. Its Offset is where the session has to be at the
	// beginning; nil is wherever it is. Learn cannot be LearnFalse.
	Score ScoreOptions

	// Event is told of each chunk, or each line that has ended, just once and in order. An error of
	// it ends the feeding, and is given back as it is. Nil: nobody is told.
	Event func(Event) error

	// Lost is told that the session has the text from one offset up to another, and that the events
	// of it were lost and cannot be made again, and why. If it returns nil feeding goes on; nil
	// stands for a function that returns the *LostError.
	Lost func(*LostError) error

	// Waiting is told why the feeder waits, and how long, before it tries again. Nil: nobody is
	// told.
	Waiting func(cause error, pause time.Duration)

	// Diverged gets the number of times that the session's fast weights diverged and were reset in
	// a request. Nil: the number is dropped.
	Diverged func(int64)

	BatchBytes int // of a request at most; 0: BatchBytesDefault
	// after which an answer that does not go on is given up; 0: StallDefault
	Stall time.Duration
}

// withDefaults fills in what is zero.
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

// validate reports the first option that cannot be used.
func (o FeedOptions) validate() error {
	switch {
	case o.Score.Learn == LearnFalse:
		return fmt.Errorf("client: feeding with learn=%s: a text that does not become the "+
			"session's "+
			"cannot be fed", LearnFalse)
	case o.BatchBytes < 0 || o.Stall < 0:
		return fmt.Errorf(
			"client: feeding: batches of %d bytes and a stall of %v, expected 0 or more",
			o.BatchBytes, o.Stall)
	}
	return nil
}

// A MovedError says that a session is at an offset that the feeder cannot have brought it to, or
// has another text there: others feed it too.
type MovedError struct {
	Session         string
	Expected, Found int64 // offsets; the same if the text differs
}

func (e *MovedError) Error() string {
	if e.Expected == e.Found {
		return fmt.Sprintf("client: session %s has another text up to offset %d than it was fed: "+
			"somebody else feeds it", e.Session, e.Found)
	}
	return fmt.Sprintf("client: session %s is at offset %d, expected %d: somebody else feeds it",
		e.Session, e.Found, e.Expected)
}

// A LostError says that a session has the text from one offset up to another, and that events of it
// were lost.
type LostError struct {
	Session  string
	From, To int64
	Err      error // why they cannot be made again
}

func (e *LostError) Error() string {
	return fmt.Sprintf(
		"client: session %s has the text from offset %d up to %d, but its events were "+
			"lost, and cannot be made again: %v", e.Session, e.From, e.To, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }
