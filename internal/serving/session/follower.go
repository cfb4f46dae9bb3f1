package session

import (
	"context"
	"errors"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// stallTime is the delay before the feeding of a shadow is retried after an error. New text of the
// followed session causes an immediate retry.
const stallTime = 5 * time.Second

var errLeft = errors.New("the session is no longer a shadow")

// follower feeds shadows from the logs of the sessions that they follow. It runs a goroutine for a
// shadow while there is text to feed. After a restart, a shadow continues where its own log ends. A
// shadow is fed whole records, so that the totals of both sessions can be compared after each
// record.
type follower struct {
	engine *engine
	index  *index
	turns  chan struct{}   // semaphore: one token per shadow that is being fed
	ctx    context.Context // canceled when a shutdown begins
	stop   context.CancelFunc
	rest   time.Duration // the delay before a retry: stallTime, except in tests
}

func newFollower(e *engine, ro *index, turns int) *follower {
	ctx, stop := context.WithCancel(context.Background())
	return &follower{
		engine: e, index: ro, turns: make(chan struct{}, turns), ctx: ctx, stop: stop,
		rest: stallTime,
	}
}

func (fo *follower) grown(of *session) {
	for _, s := range of.shadows() {
		fo.wake(s)
	}
}

// wake starts to feed a shadow the text that the shadow lacks. It does not wait for the feeding.
func (fo *follower) wake(s *session) {
	if s.wake() {
		go fo.run(s)
	}
}

// begin runs when the server starts. It wakes each shadow that has less text than the session that
// it follows.
func (fo *follower) begin() {
	for after := ""; ; {
		page, more := fo.index.registry.Page(after, listPage, fo.engine.clock.now())
		for _, e := range page {
			if of := e.Value.followed(); of != nil && e.Value.seen().offset < of.seen().offset {
				fo.wake(e.Value)
			}
		}
		if !more {
			return
		}
		after = page[len(page)-1].ID
	}
}

// detach makes a shadow an independent session. It calls amend, which removes the link from the
// session's head. Once amend is called, the shadow is no longer fed.
func (fo *follower) detach(ctx context.Context, s *session, amend func() error) error {
	of := s.leave()
	err := s.takeTurn(ctx, WaitMax)
	if err == nil {
		err = amend()
		<-s.feeding
		// a follower that waits for the right to feed stops when it gets this right
		s.awaitFollower()
	}
	if err != nil && of != nil && s.shadowOf() != "" && s.follow(of) == nil {
		fo.wake(s)
	}
	return err
}

// run feeds a shadow until it has all text or an error occurs.
func (fo *follower) run(s *session) {
	for more := true; more; {
		s.beginFollowing()
		err := fo.catchUp(s)
		more = s.endFollowing(err)
		if err != nil && fo.ctx.Err() == nil && s.unusable() == nil && s.followed() != nil {
			s.wakeAfter(fo.rest, func() { fo.wake(s) })
		}
	}
}

// catchUp feeds a shadow up to the offset of the session that it follows. A shutdown waits only for
// the current chunk. The error says why the shadow lacks text. The error is nil if the shadow was
// deleted or is no longer a shadow.
func (fo *follower) catchUp(s *session) error {
	select {
	case fo.turns <- struct{}{}:
		defer func() { <-fo.turns }()
	case <-fo.ctx.Done():
		return nil
	}
	if err := fo.engine.life.Enter(); err != nil {
		return err
	}
	defer fo.engine.life.Leave()
	if !fo.index.registry.Use(s.entry, fo.engine.clock.now()) {
		return nil
	}
	defer fo.index.registry.Done(s.entry)
	if !s.takenUp() {
		return nil
	}
	defer s.leftAlone()
	end, err := fo.engine.beginFeeding(fo.ctx, s, WaitMax)
	if err == nil {
		err = fo.readOn(s)
		end()
	}
	if errors.Is(err, errLeft) || s.alive() != nil || fo.ctx.Err() != nil {
		return nil
	}
	return err
}

// readOn reads the followed session's log from the shadow's offset to the end, and feeds the text.
func (fo *follower) readOn(s *session) error {
	for {
		of, at := s.followed(), s.seen().offset
		if of == nil || of.alive() != nil || at >= of.seen().offset {
			return nil
		}
		err := fo.engine.store.Read(fo.ctx, of.ID, at, func(begin int64, r storage.Record) error {
			if s.followed() != of {
				return errLeft
			}
			return fo.feed(of, s, begin, r)
		})
		fo.index.touch(s)
		if err != nil {
			return err
		}
	}
}

// feed feeds a shadow the part of a record that the shadow does not have yet. The record begins at
// offset begin in the log of the followed session. At the end of the record, feed compares the
// totals of both sessions.
func (fo *follower) feed(of, s *session, begin int64, r storage.Record) error {
	fed := int(s.seen().offset - begin)
	how := lessonOf(r).From(r.Text, fed)
	var o ScoreOptions
	if r.ByLine && stream.LearnsByLine(s.Settings.Method) {
		o.Lines, o.Learn = true, LearnUnflagged
	} else {
		how = stream.Lesson{}
	}
	from := of.linesFrom()
	o.TroubleWords = of.troubleWords()
	o.Lines = o.Lines || from != nil && *from <= begin
	f := feeder{
		reports:  reports{engine: fo.engine, s: s, options: o, emit: noChunks},
		admitted: true, given: &how,
	}
	if err := f.all(fo.ctx, r.Text[fed:]); err != nil {
		return err
	}
	at := s.seen()
	if r.UnixMS == uncounted || at.blind {
		return nil
	}
	tally, baseline := totalsOf(&r, at.offset)
	c := Comparison{
		Offset:   at.offset,
		Followed: of.account(tally, baseline),
		Shadow:   s.account(at.tally, at.baseline),
	}
	before := s.compare(c)
	if before == nil && begin == 0 {
		before = new(Comparison)
	}
	if before != nil {
		fo.engine.observer.Compared(Tally{Tally: less(c.Followed.Tally, before.Followed.Tally)},
			Tally{Tally: less(c.Shadow.Tally, before.Shadow.Tally)})
	}
	return nil
}
