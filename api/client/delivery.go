package client

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// turnWait is how long a batch waits at the server while another request feeds the session; then
// the feeder sends it again. Often the other request is an earlier one of this feeder, whose
// connection has broken.
const turnWait = 30 * time.Second

// batch is a piece of the stream being delivered.
type batch struct {
	text  []byte
	begin int64 // offset of the batch's first byte
	taken int64 // the session is known to have the text up to here
	told  int64 // events up to here have been reported

	// unsure is true once the outcome of a request is unknown: the session may have text beyond
	// taken.
	unsure bool
}

func (b *batch) end() int64 { return b.begin + int64(len(b.text)) }

// from returns the batch's text between two offsets.
func (b *batch) from(from, to int64) []byte { return b.text[from-b.begin : to-b.begin] }

// errStalled ends an answer that makes no progress.
var errStalled = errors.New("client: the server stopped sending its answer")

// changedNothing reports whether err is an answer that proves that the request added no text to the
// session. An answer with an offset is no such proof: the server may have accepted text up to
// there.
func changedNothing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Type == ProblemOffsetConflict ||
		comesBack(err) && e.Type != "" && e.Offset == nil)
}

// delivery sends batches to a session and handles the resulting events.
type delivery struct {
	c        *Client
	session  string
	score    ScoreOptions
	event    func(Event) error
	diverged func(int64)
	stall    time.Duration

	rest   []*LineEvent // unfinished line or records at the end of the delivered text
	next   int64        // end of the last reported record
	totals *Measures    // totals of the session, after the last complete answer
}

// send sends the part of a batch that the session lacks, and reports the resulting events.
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
		stalled.Stop() // the caller may take long over an event
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

// take handles an event of a batch. It returns the error of the caller's function.
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
			return nil // the record was reported before the replay
		}
		d.next = end
		b.told = max(b.told, end) // a record may end in an earlier batch
	case e.Chunk != nil:
		b.told = e.Chunk.Totals.Bytes
		if pending := e.Chunk.PendingBytes; pending != nil {
			b.told += *pending
		}
	}
	b.taken = max(b.taken, b.told)
	return d.event(e)
}
