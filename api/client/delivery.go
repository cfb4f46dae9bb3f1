package client

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// turnWait is how long the server queues a batch while another request feeds the session. After
// that time the feeder sends the batch again. Often the other request is an earlier attempt of this
// feeder, whose connection has broken.
const turnWait = 30 * time.Second

type batch struct {
	text  []byte
	begin int64 // offset of the batch's first byte
	taken int64 // offset up to which the session certainly has the text
	told  int64 // offset up to which events have been reported

	// unsure is true after a request whose outcome is unknown: the session may have text beyond the
	// offset in taken.
	unsure bool
}

func (b *batch) end() int64 { return b.begin + int64(len(b.text)) }

func (b *batch) from(from, to int64) []byte { return b.text[from-b.begin : to-b.begin] }

var errStalled = errors.New("client: the server stopped sending its answer")

// changedNothing reports whether err proves that the server added none of the request's text to the
// session. An offset conflict proves that nothing was added. Any other refusal with an offset
// proves nothing, because the server may have accepted the text up to that offset.
func changedNothing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Type == ProblemOffsetConflict ||
		comesBack(err) && e.Type != "" && e.Offset == nil)
}

type delivery struct {
	c        *Client
	session  string
	score    ScoreOptions
	event    func(Event) error
	diverged func(int64)
	stall    time.Duration

	rest   []*LineEvent // lines of an unfinished message at the end of the text
	next   int64        // offset of the end of the last reported record
	totals *Measures
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
		stalled.Stop() // the caller's function may need a long time
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

// take processes an event of a batch: it reports a chunk or finished line, keeps an unfinished
// line, and records a summary. It returns the error of the caller's function.
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
		b.told = max(b.told, end)
	case e.Chunk != nil:
		b.told = e.Chunk.Totals.Bytes
		if pending := e.Chunk.PendingBytes; pending != nil {
			b.told += *pending
		}
	}
	b.taken = max(b.taken, b.told)
	return d.event(e)
}
