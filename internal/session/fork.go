package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// fork is one under way: a session that is made of another's log and snapshot. The state comes by
// itself: the fork is recovered from the last snapshot before its offset and the log after it, as
// after a restart.
type fork struct {
	engine   *engine
	roster   *roster
	from, to *liveSession
	history  string
	at       int64 // the fork's offset
	snapshot int64 // offset of the last snapshot before that; -1: there is none
	start    int64 // of the fork's log
}

// run makes the fork. The other must not trim its log, and not drop its snapshots, before they are
// copied: until then its state is locked.
func (f *fork) run(ctx context.Context, who Caller, r ForkRequest) (Info, error) {
	s := f.from
	if f.history = r.History; f.history == "" {
		f.history = s.History
	}
	if err := s.lock(ctx); err != nil {
		return Info{}, err
	}
	locked := true
	unlock := func() {
		if locked {
			f.tidyLocked()
			s.unlock()
		}
		locked = false
	}
	defer unlock()
	if err := f.roster.room.Room(who.Key, f.takes()); err != nil {
		return Info{}, err
	}
	if err := f.planLocked(ctx, r.AtOffset); err != nil {
		return Info{}, err
	}
	var err error
	if f.to, err = f.fresh(who, r); err != nil {
		return Info{}, err
	}
	m := blueprint{who: who, s: f.to, start: f.start, disk: f.takes()}
	m.fill = func() error {
		cut, err := f.copyLocked(ctx)
		unlock() // the other's state can make room for the fork's
		if err != nil {
			return err
		}
		return f.finish(ctx, cut)
	}
	return f.roster.build(ctx, m)
}

// takes is about what the fork will take of the disk.
func (f *fork) takes() int64 {
	return f.engine.room.Charged(f.from.ID) + int64(len(f.from.encode())) + sessionlog.KeyCharge
}

// tidyLocked drops the snapshot that was taken to be copied, where there is no other use for it.
func (f *fork) tidyLocked() {
	if !f.engine.store().Durable() {
		// A session that is gone has no snapshots, and this error can be ignored.
		_ = f.engine.snapshots.dropAllLocked(context.Background(), f.from)
	}
}

// planLocked finds out what there is to copy.
func (f *fork) planLocked(ctx context.Context, asked *int64) error {
	s, e := f.from, f.engine
	if err := e.journal.currentLocked(ctx, s); err != nil {
		return err
	}
	end := s.seen().offset
	if f.at = end; asked != nil {
		f.at = *asked
	}
	found, err := f.snapshotLocked(ctx, end)
	if err != nil {
		return err
	}
	kept, err := e.store().Snapshots(ctx, s.ID)
	if err != nil {
		return storeError("looking for snapshots of session "+s.ID, err)
	}
	if err := f.checkOffset(found, kept, end); err != nil {
		return err
	}
	f.snapshot = -1
	for _, k := range kept {
		if k.Offset <= f.at {
			f.snapshot = k.Offset
		}
	}
	if f.start = found.Start; f.history == HistoryTail && f.snapshot > 0 {
		return f.beginTail(ctx)
	}
	if f.history == HistoryFull && found.Start > 0 {
		want := HistoryTail + ": the session has its text from offset " + fmt.Sprint(found.Start) + " on only"
		return &FieldError{"history", HistoryFull, want}
	}
	return nil
}

// snapshotLocked takes a snapshot of the other at its end, if the fork begins there and would have
// too much to compute without one, or has no other state to come from. It tells what the store then
// has.
func (f *fork) snapshotLocked(ctx context.Context, end int64) (sessionlog.Session, error) {
	s, e := f.from, f.engine
	found, err := e.journal.get(ctx, s)
	if err != nil {
		return found, err
	}
	cost, volatile := s.replay, !e.store().Durable()
	must := volatile && found.Start > 0 // there is no other
	if f.at != end || s.stream == nil || cost < replayWorth && !must || !e.states.hasRoom(s) {
		return found, nil
	}
	if err := e.snapshots.writeLocked(ctx, s, s.stream); err != nil {
		return found, err
	}
	if volatile { // the snapshot is dropped when it is copied
		s.replay = cost
	}
	return e.journal.get(ctx, s) // the log may have been trimmed
}

// checkOffset says whether the fork's offset can be recovered.
func (f *fork) checkOffset(found sessionlog.Session, kept []sessionlog.Snapshot, end int64) error {
	first := int64(0)
	if found.Start > 0 {
		first = end
		if len(kept) > 0 {
			first = max(kept[0].Offset, found.Start+1) // there has to be a record
		}
	}
	if f.at >= first && f.at <= end {
		return nil
	}
	wrong := FieldError{"at_offset", fmt.Sprint(f.at), fmt.Sprintf("%d to %d", first, end)}
	if f.at >= 0 && f.at < first {
		return &TrimmedError{wrong}
	}
	return &wrong
}

// beginTail begins the log with the record before the snapshot's end, so that there is one.
func (f *fork) beginTail(ctx context.Context) error {
	stop := errors.New("found")
	err := f.engine.store().Read(ctx, f.from.ID, f.snapshot-1, func(at int64, _ sessionlog.Record) error {
		f.start = at
		return stop
	})
	// The log may begin with the snapshot: then there is no record before it.
	if err != nil && !errors.Is(err, stop) && !errors.Is(err, sessionlog.ErrRange) {
		return storeError("reading the log of session "+f.from.ID, err)
	}
	return nil
}

// fresh is the session to be made, which is not complete.
func (f *fork) fresh(who Caller, r ForkRequest) (*liveSession, error) {
	like := CreateRequest{Labels: r.Labels, TTL: r.TTL, History: f.history}
	to, err := f.roster.fresh(who, f.from.Settings, like)
	if err != nil {
		return nil, err
	}
	to.Complete = false
	to.Parent = &Parent{ID: f.from.ID, Offset: f.at}
	to.Numerics = slices.Clone(f.from.Numerics)
	for n := len(to.Numerics) - 1; n > 0 && to.Numerics[n].From > f.at; n-- {
		to.Numerics = to.Numerics[:n]
	}
	return to, nil
}

// copyLocked copies the log and the snapshot, and gives the text after the last whole record, up to
// the fork's offset.
func (f *fork) copyLocked(ctx context.Context) (cut []byte, err error) {
	store := f.engine.store()
	c := copier{engine: f.engine, to: f.to, at: f.start}
	if f.at > f.start {
		done := errors.New("done")
		err = store.Read(ctx, f.from.ID, f.start, func(at int64, r sessionlog.Record) error {
			if at+int64(len(r.Text)) <= f.at {
				return c.copy(ctx, r)
			}
			cut = bytes.Clone(r.Text[:f.at-at])
			return done
		})
		if err != nil && !errors.Is(err, done) {
			return nil, storeError("copying session "+f.from.ID, err)
		}
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	if f.snapshot < 0 || f.snapshot > c.at {
		return cut, nil
	}
	err = store.ReadSnapshot(ctx, f.from.ID, f.snapshot, func(r io.Reader) error {
		return f.engine.journal.writeSnapshotLocked(ctx, f.to, f.snapshot, func(w io.Writer) error {
			_, err := io.Copy(w, r)
			return err
		})
	})
	if err != nil {
		return nil, storeError("copying a snapshot of session "+f.from.ID, err)
	}
	return cut, nil
}

// finish feeds what is left of a record that was cut, for its totals; and where nothing is
// recovered later, it makes the state now.
func (f *fork) finish(ctx context.Context, cut []byte) error {
	e, to := f.engine, f.to
	if err := e.foundLocked(ctx, to); err != nil {
		return err
	}
	feed := feeder{engine: e, s: to, emit: noChunks, admitted: true}
	recorded := f.start == 0 || to.seen().offset > f.start // the totals before the cut are known
	if e.store().Durable() && recorded {
		feed.patience = e.forkRecovery
	}
	err := feed.all(ctx, cut)
	if errors.Is(err, errRecovering) {
		err = f.appendUncounted(ctx, cut)
	}
	if err != nil {
		return err
	}
	return e.settleIn(ctx, to)
}

// appendUncounted appends what is left of a record that was cut, without its totals: the state that
// they follow from is far to compute, and is made when the fork is used first.
func (f *fork) appendUncounted(ctx context.Context, cut []byte) error {
	e, to := f.engine, f.to
	if err := to.lock(ctx); err != nil {
		return err
	}
	defer to.unlock()
	seen := to.seen()
	r := sessionlog.Record{
		UnixMS: uncounted, Bits: seen.tally.Bits, Baseline: seen.baseline.Bits,
		HasBaseline: to.Settings.Baseline, Text: cut,
	}
	if err := e.journal.appendLocked(ctx, to, seen.offset, r); err != nil {
		return err
	}
	return e.foundLocked(ctx, to)
}
