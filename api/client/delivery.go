package client

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// turnWait is how long a batch waits at the server for its turn, where another request feeds the
// session: often the feeder's own one before, whose connection has broken. After that it asks
// again.
const turnWait = 30 * time.Second

// batch is a piece of the stream on its way.
type batch struct {
	text  []byte
	begin int64 // the offset of its first byte
	taken int64 // the session has the text up to here, as far as the feeder knows
	told  int64 // the events of the text up to here have been told

	// unsure is true once it is not known what became of a request: the session may have more of
	// the text than up to taken.
	unsure bool
}

func (b *batch) end() int64 { return b.begin + int64(len(b.text)) }

// from is the text of the batch from one offset up to another.
func (b *batch) from(from, to int64) []byte { return b.text[from-b.begin : to-b.begin] }

// errStalled is the end of an answer of which nothing comes.
var errStalled = errors.New("client: nothing has come of an answer for too long")

// changedNothing reports whether an error is an answer after which the session is where it was. One
// that is about to come back may have taken in text before: then the answer says up to where.
func changedNothing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Type == ProblemOffsetConflict ||
		comesBack(err) && e.Type != "" && e.Offset == nil)
}

// delivery brings batches to a session, and takes in the events that come back.
type delivery struct {
	c        *Client
	session  string
	score    ScoreOptions
	event    func(Event) error
	diverged func(int64)
	stall    time.Duration

	rest   []*LineEvent // what is under way at the end of what was delivered: a line, or records
	next   int64        // where the record ends that was told last
	totals *Measures    // the session's, after the last answer that came in the whole
}

// send sends what the session does not have of a batch, and tells the events that come back.
func (d *delivery) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(d.stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	o := d.score
	o.Offset = &b.taken
	d.rest = nil
	text := bytes.NewReader(b.from(b.taken, b.end()))
	for e, err := range d.c.score(ctx, d.session, text, o.params(turnWait)) {
		stalled.Stop() // what the caller does with an event may take its time
		if err != nil {
			b.unsure = b.unsure || !changedNothing(err)
			if context.Cause(ctx) == errStalled {
				err = errStalled
			}
			return err
		}
		if err := d.take(b, e); err != nil {
			return final{err}
		}
		stalled.Reset(d.stall)
	}
	return nil
}

// take takes in an event of a batch. The error is that of the function that is told.
func (d *delivery) take(b *batch, e Event) error {
	switch {
	case e.Summary != nil:
		b.taken, b.told, d.totals = e.Summary.Offset, e.Summary.Offset, &e.Summary.Totals
		if n := e.Summary.Divergences; n != nil {
			d.diverged(*n)
		}
		return nil
	case e.Line != nil && !e.Line.Ended:
		d.rest = append(d.rest, e.Line)
		return nil
	case e.Line != nil:
		end := e.Line.Offset + e.Line.Bytes
		if e.Line.Lines != nil && end <= d.next {
			return nil // it was told before the line behind it was made again
		}
		d.next = end
		b.told = max(b.told, end) // a record may end where an earlier text did
	case e.Chunk != nil:
		b.told = e.Chunk.Totals.Bytes
		if pending := e.Chunk.PendingBytes; pending != nil {
			b.told += *pending
		}
	}
	b.taken = max(b.taken, b.told)
	return d.event(e)
}
