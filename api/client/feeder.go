package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Defaults of FeedOptions.
const (
	BatchBytesDefault = 16 << 10
	StallDefault      = 2 * time.Minute
)

// turnWait is how long a batch waits at the server for its turn, where another request feeds the
// session: often the feeder's own one before, whose connection has broken. After that it asks again.
const turnWait = 30 * time.Second

// FeedOptions say how a stream is fed, and who is told of it.
type FeedOptions struct {
	// Score says how the text is scored. Its Offset is where the session has to be at the beginning;
	// nil is wherever it is. Learn cannot be LearnFalse.
	Score ScoreOptions

	// Event is told of each chunk, or each line that has ended, just once and in order. An error of
	// it ends the feeding, and is given back as it is. Nil: nobody is told.
	Event func(Event) error

	// Lost is told that the session has the text from one offset up to another, and that the events
	// of it were lost and cannot be made again, and why. If it returns nil feeding goes on; nil
	// stands for a function that returns the *LostError.
	Lost func(*LostError) error

	// Waiting is told why the feeder waits, and how long, before it tries again. Nil: nobody is told.
	Waiting func(cause error, pause time.Duration)

	BatchBytes int           // of a request at most; 0: BatchBytesDefault
	Stall      time.Duration // an answer of which nothing comes for so long is given up; 0: StallDefault
}

// A MovedError says that a session is at an offset that the feeder cannot have brought it to, or has
// another text there: others feed it too.
type MovedError struct {
	Session         string
	Expected, Found int64 // offsets; the same if the text differs
}

// Error implements error.
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

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("client: session %s has the text from offset %d up to %d, but its events were "+
		"lost, and cannot be made again: %v", e.Session, e.From, e.To, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// told is an error of a function that was told of something: it is given back as it is.
type told struct{ error }

// A Feeder feeds a stream to a session exactly once: whatever happens on the way, each byte is in
// the session once, and each event is told once. It belongs to one goroutine.
type Feeder struct {
	c       *Client
	session string
	o       FeedOptions // with defaults

	offset int64      // all before is in the session and has been told; -1: not known yet
	rest   *LineEvent // the line under way there
	totals *Measures  // the session's, after the last batch whose answer came in the whole
	err    error      // what has ended the feeding
}

// NewFeeder makes a feeder of a session, by its id or name. No request is made.
func (c *Client) NewFeeder(session string, o FeedOptions) *Feeder {
	if o.Event == nil {
		o.Event = func(Event) error { return nil }
	}
	if o.Lost == nil {
		o.Lost = func(e *LostError) error { return e }
	}
	if o.Waiting == nil {
		o.Waiting = func(error, time.Duration) {}
	}
	o.BatchBytes, o.Stall = cmp.Or(o.BatchBytes, BatchBytesDefault), cmp.Or(o.Stall, StallDefault)
	f := &Feeder{c: c, session: session, o: o, offset: -1}
	if o.Score.Offset != nil {
		f.offset = *o.Score.Offset
	}
	switch {
	case o.Score.Learn == LearnFalse:
		f.err = fmt.Errorf("client: feeding with learn=%s: a text that does not become the session's "+
			"cannot be fed", LearnFalse)
	case o.BatchBytes < 0 || o.Stall < 0:
		f.err = fmt.Errorf("client: feeding: batches of %d bytes and a stall of %v, expected 0 or more",
			o.BatchBytes, o.Stall)
	}
	return f
}

// Offset is where the session is: all before it has been taken in, and its events have been told. -1
// if no text was fed yet, and FeedOptions named no offset.
func (f *Feeder) Offset() int64 { return f.offset }

// Rest is the line under way at Offset as it is so far; nil if there is none, or events are not of
// lines.
func (f *Feeder) Rest() *LineEvent { return f.rest }

// End tells of the line under way: the text has ended.
func (f *Feeder) End() error {
	if f.err == nil && f.rest != nil {
		rest := f.rest
		f.rest = nil
		return f.o.Event(Event{Line: rest})
	}
	return f.shown()
}

// shown is what has ended the feeding, as the caller is to see it.
func (f *Feeder) shown() error {
	var callback told
	if errors.As(f.err, &callback) {
		return callback.error
	}
	return f.err
}

// Feed feeds the next piece of the stream. When it returns nil the session has all of the text, and
// its events have been told. As long as the server cannot be reached, or has no time, Feed waits and
// tries again, until the context ends. After any error the feeder has ended, and how much of the
// text the session has is for the session to say.
func (f *Feeder) Feed(ctx context.Context, text []byte) error {
	for len(text) > 0 && f.err == nil {
		n := min(len(text), f.o.BatchBytes)
		f.err = f.batch(ctx, text[:n])
		text = text[n:]
	}
	return f.shown()
}

// persist makes attempts until one succeeds, or fails for good. The pauses begin anew when an
// attempt has brought something forward.
func (f *Feeder) persist(ctx context.Context, attempt func() (forward bool, err error)) error {
	for pause := (backoff{}); ; {
		forward, err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w; the last attempt: %w", context.Cause(ctx), err)
		}
		if !f.passes(err) {
			return err
		}
		if forward {
			pause = backoff{}
		}
		wait := pause.next(err)
		f.o.Waiting(err, wait)
		if errWait := sleep(ctx, wait); errWait != nil {
			return fmt.Errorf("%w; the last attempt: %w", errWait, err)
		}
	}
}

// passes is passes for all but what the feeder itself has found.
func (f *Feeder) passes(err error) bool {
	var callback told
	var moved *MovedError
	var lost *LostError
	return !errors.As(err, &callback) && !errors.As(err, &moved) && !errors.As(err, &lost) && passes(err)
}

// batch is a piece of the stream on its way.
type batch struct {
	text  []byte
	begin int64 // the offset of its first byte
	taken int64 // the session has the text up to here, as far as the feeder knows
	told  int64 // the events of the text up to here have been told

	// unsure is true once it is not known what became of a request: the session may have more of the
	// text than up to taken.
	unsure bool
}

func (b *batch) end() int64 { return b.begin + int64(len(b.text)) }

// from is the text of the batch from one offset up to another.
func (b *batch) from(from, to int64) []byte { return b.text[from-b.begin : to-b.begin] }

// batch feeds one batch.
func (f *Feeder) batch(ctx context.Context, text []byte) error {
	if err := f.persist(ctx, func() (bool, error) { return false, f.ask(ctx) }); err != nil {
		return err
	}
	b := &batch{text: text, begin: f.offset, taken: f.offset, told: f.offset}
	err := f.persist(ctx, func() (bool, error) {
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
	s, err := f.c.GetSession(ctx, f.session)
	if err == nil {
		f.offset = s.Offset
	}
	return err
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
		err := f.send(ctx, b)
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
		return &MovedError{f.session, b.taken, *e.Offset}
	}
	return err
}

// errStalled is the end of an answer of which nothing comes.
var errStalled = errors.New("client: nothing has come of an answer for too long")

// changedNothing reports whether an error is an answer after which the session is where it was. One
// that is about to come back may have taken in text before: then the answer says up to where.
func changedNothing(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Type == ProblemStoreFailed {
		return false
	}
	return e.Type == ProblemOffsetConflict || comesBack(err) && e.Type != "" && e.Offset == nil
}

// send sends what the session does not have of a batch, and tells the events that come back.
func (f *Feeder) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(f.o.Stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	o := f.o.Score
	o.Offset = &b.taken
	text := bytes.NewReader(b.from(b.taken, b.end()))
	for e, err := range f.c.score(ctx, f.session, text, o.params(turnWait)) {
		stalled.Stop()
		if err != nil {
			b.unsure = b.unsure || !changedNothing(err)
			if context.Cause(ctx) == errStalled {
				err = errStalled
			}
			return err
		}
		if err := f.take(b, e); err != nil {
			return err
		}
		stalled.Reset(f.o.Stall)
	}
	return nil
}

// take takes in an event of a batch.
func (f *Feeder) take(b *batch, e Event) error {
	switch {
	case e.Summary != nil:
		b.taken, b.told, f.totals = e.Summary.Offset, e.Summary.Offset, &e.Summary.Totals
		return nil
	case e.Line != nil && !e.Line.Ended:
		f.rest = e.Line
		return nil
	case e.Line != nil:
		f.rest = nil
		b.told = e.Line.Offset + e.Line.Bytes
	case e.Chunk != nil:
		b.told = e.Chunk.Offset + e.Chunk.Bytes
	}
	b.taken = max(b.taken, b.told)
	if err := f.o.Event(e); err != nil {
		return told{err}
	}
	return nil
}
