package session

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// Score feeds text to a session, as it comes: what the body has at hand, up to the end of the chunk, is scored at once. emit is told of each
// thing scored, in order, before the update that it causes; what it was told of is in the session, whatever happens then.
//
// One request at a time feeds a session; another gets ErrBusy. Score ends with the body; with emit's error; between two chunks with the
// context, when the session is deleted (ErrNotFound), and when the Manager drains (ErrDraining); with a *BodyError when the body cannot be
// read; with a *LimitError when the session is full, and with ErrFull when the memory is. A call that fails with *OffsetError or ErrBusy has
// read nothing of the body; one that fails with ErrOverloaded has read some, and accepted nothing. The Summary tells what was accepted, also
// beside an error.
func (mg *Manager) Score(ctx context.Context, who Caller, id string, body io.Reader, o ScoreOptions, emit func(Chunk) error) (Summary, error) {
	begun := time.Now()
	s, err := mg.use(who, id)
	if err != nil {
		return Summary{}, err
	}
	defer mg.unuse(s)
	if !s.feeding.CompareAndSwap(false, true) {
		return Summary{}, ErrBusy
	}
	defer s.feeding.Store(false)
	if have := mg.offset(s); o.Offset != nil && *o.Offset != have {
		return Summary{}, &OffsetError{Have: have, Want: *o.Offset}
	}
	f := feeder{mg: mg, s: s, logProbs: o.LogProbs, emit: emit}
	err = f.body(ctx, body)
	f.finish(begun)
	return f.sum, err
}

// feeder is a request that feeds a session: it holds feeding.
type feeder struct {
	mg       *Manager
	s        *session
	logProbs bool
	emit     func(Chunk) error
	sum      Summary
	admitted bool // it has waited for a worker before
}

// body reads ahead of the scoring only what is there: a slow body is scored as it comes, of a fast one every chunk is full.
func (f *feeder) body(ctx context.Context, body io.Reader) error {
	r := bufio.NewReaderSize(body, readBufferBytes)
	for {
		if _, err := r.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return &BodyError{Offset: f.mg.offset(f.s), Err: err}
		}
		text, _ := r.Peek(r.Buffered())
		n, err := f.piece(ctx, text)
		if err != nil {
			return err
		}
		_, _ = r.Discard(n) // they are in the buffer
	}
}

// piece is one operation that a drain waits for.
func (f *feeder) piece(ctx context.Context, text []byte) (n int, err error) {
	if err := f.mg.enter(); err != nil {
		return 0, err
	}
	defer f.mg.leave()
	return f.feed(ctx, text)
}

// all feeds the whole text.
func (f *feeder) all(ctx context.Context, text []byte) error {
	for len(text) > 0 {
		n, err := f.feed(ctx, text)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// feed takes as much of the text as the chunk has room for, in the order that makes a session what it is: score with the state before; append
// to the log; accept; report; and only then, if the chunk is full, backward and update. Nothing changes before the log has the text, and
// nothing after that is left out, whether the report arrives or not. It returns the number of bytes taken.
func (f *feeder) feed(ctx context.Context, text []byte) (n int, err error) {
	begun, s := time.Now(), f.s
	l, err := f.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer f.mg.unlock(s)
	defer f.mg.keepIfDue(s) // between two chunks, and without a worker
	defer l.release()
	text, err = f.mg.reserve(s, text[:min(len(text), s.stream.Room())])
	if err != nil {
		return 0, err
	}
	computing := time.Now()
	scores := l.worker().Score(s.stream, text)
	s.replay += time.Since(computing)
	r := f.record(text, scores)
	if err := l.lend(func() error { return f.append(ctx, r) }, patience); err != nil {
		f.mg.unreserve(s, len(text))
		return 0, err
	}
	if l.wasLost() {
		scores = l.worker().Score(s.stream, text) // the same bits
	}
	c := f.report(text, scores)
	l.worker().Commit(s.stream, text, scores)
	f.mg.publish(s)
	f.total(&c)
	defer func() { // whatever becomes of the report
		s.settle(l.worker())
		f.mg.publish(s)
	}()
	c.Elapsed = time.Since(begun)
	return len(text), l.lend(func() error { return f.emit(c) }, patience)
}

// record is what the log gets of a text that is not accepted yet.
func (f *feeder) record(text []byte, scores stream.Scores) sessionlog.Record {
	s := f.s
	r := sessionlog.Record{UnixMS: f.mg.now().UnixMilli(), HasBaseline: s.Settings.Baseline, Text: text}
	r.Bits, r.Baseline = s.stream.Totals(scores)
	return r
}

// append makes the text durable.
func (f *feeder) append(ctx context.Context, r sessionlog.Record) error {
	mg, s := f.mg, f.s
	err := mg.options.Store.Append(ctx, s.ID, s.epoch, s.stream.Tally.Bytes, r)
	if err == nil {
		return nil
	}
	if errors.Is(err, sessionlog.ErrFenced) || errors.Is(err, sessionlog.ErrSequence) {
		s.epoch = 0 // somebody else has written: the next request finds out what
		mg.drop(s)
	}
	return mg.storeError("appending to the log of session "+s.ID, err)
}

// turn waits for the stream, which it locks, and for a worker.
func (f *feeder) turn(ctx context.Context) (l *lease, err error) {
	err = f.mg.waiting.wait(&f.admitted, func() error {
		if err := f.mg.lock(ctx, f.s); err != nil {
			return err
		}
		if l, err = f.mg.scheduler.lease(ctx, f.s.job()); err != nil {
			f.mg.unlock(f.s)
		}
		return err
	})
	return l, err
}

// report tells of a text that is not accepted yet.
func (f *feeder) report(text []byte, scores stream.Scores) Chunk {
	s := f.s
	c := Chunk{
		Step:    s.stream.Step,
		Offset:  s.stream.Tally.Bytes,
		Tally:   s.tally(f.accountOf(text, scores), scores.BaselineBits()),
		Updates: s.stream.Updates(),
		Written: int64(s.stream.Written),
		FastRMS: s.rms,
	}
	if f.logProbs {
		c.LogProbs = make([]float64, len(scores.NLL))
		for i, nll := range scores.NLL {
			c.LogProbs[i] = -float64(nll)
		}
	}
	f.sum.Chunks++
	f.sum.Bytes += c.Bytes
	f.sum.Chars += c.Chars
	f.sum.Tokens += c.Tokens
	for _, nll := range scores.NLL { // one by one: the sum must not depend on the pieces
		f.sum.Bits += float64(nll) / math.Ln2
	}
	if s.Settings.Baseline {
		if f.sum.BaselineBits == nil {
			f.sum.BaselineBits = new(float64)
		}
		for _, nll := range scores.Baseline {
			*f.sum.BaselineBits += float64(nll) / math.Ln2
		}
	}
	return c
}

// accountOf counts a text that was scored.
func (f *feeder) accountOf(text []byte, scores stream.Scores) tokenizer.Tally {
	return tokenizer.Tally{
		Bytes: int64(len(text)), Chars: int64(f.mg.model.Tokenizer.Chars(text)),
		Tokens: int64(len(scores.NLL)), Bits: scores.Bits(),
	}
}

// total completes the report when the text is accepted.
func (f *feeder) total(c *Chunk) {
	s := f.s
	c.Total = s.tally(s.stream.Tally, s.stream.Baseline.Bits)
	c.Complete = s.stream.Room() == 0
}

// finish completes the summary.
func (f *feeder) finish(begun time.Time) {
	p := f.mg.touch(f.s)
	f.sum.Offset, f.sum.Updates = p.offset, p.updates
	f.sum.Total = f.s.tally(p.tally, p.baseline.Bits)
	if f.s.Settings.Baseline && f.sum.BaselineBits == nil {
		f.sum.BaselineBits = new(float64)
	}
	f.sum.Elapsed = time.Since(begun)
}
