package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// copyBytes is how much text of a log is appended to another at once.
const copyBytes = 256 << 10

// Fork makes a session that has the text of another up to an offset, and goes its own way from there. It belongs to the caller. The state comes by
// itself: the fork has the last snapshot before the offset and the log after it, as after a restart. It returns a *FieldError for an offset that
// the other does not have (a *TrimmedError: any more), and what Create does.
func (mg *Manager) Fork(ctx context.Context, who Caller, id string, r ForkRequest) (Info, error) {
	s, err := mg.use(who, id)
	if err != nil {
		return Info{}, err
	}
	defer mg.unuse(s)
	if err := mg.enter(); err != nil {
		return Info{}, err
	}
	defer mg.leave()
	if err := checkRequest(CreateRequest{Labels: r.Labels, TTL: r.TTL, History: r.History}); err != nil {
		return Info{}, err
	}
	f := fork{mg: mg, from: s, history: r.History}
	if f.history == "" {
		f.history = s.History
	}
	// The other must not trim its log, and not drop its snapshots, before they are copied.
	if err := s.lock(ctx); err != nil {
		return Info{}, err
	}
	locked := true
	unlock := func() {
		if locked {
			if mg.resident { // the snapshot has been copied
				_ = mg.dropSnapshots(context.Background(), s) // of a session that is gone there is none
			}
			mg.unlock(s)
		}
		locked = false
	}
	defer unlock()
	if err := f.plan(ctx, r.AtOffset); err != nil {
		return Info{}, err
	}
	to, err := f.fresh(who, r)
	if err != nil {
		return Info{}, err
	}
	return mg.build(ctx, who, to, f.start, func() error {
		cut, err := f.copy(ctx)
		unlock() // its state can make room for the fork's
		if err != nil {
			return err
		}
		return f.finish(ctx, cut)
	})
}

// fork is one under way.
type fork struct {
	mg       *Manager
	from, to *session
	history  string
	at       int64 // the fork's offset
	snapshot int64 // the last one before that; -1: none
	start    int64 // of the fork's log
}

// plan finds out what there is to copy. It needs the lock of from.
func (f *fork) plan(ctx context.Context, asked *int64) error {
	s, store := f.from, f.mg.options.Store
	if err := f.mg.claim(ctx, s); err != nil {
		return err
	}
	end := f.mg.offset(s)
	if f.at = end; asked != nil {
		f.at = *asked
	}
	found, err := store.Get(ctx, s.ID)
	if err != nil {
		return f.mg.storeError("looking for session "+s.ID, err)
	}
	must := f.mg.resident && found.Start > 0 // there is no other
	if cost := s.replay; f.at == end && s.stream != nil && (cost >= replayWorth || must) {
		if err := f.mg.snapshot(ctx, s); err != nil {
			return f.mg.storeError("taking a snapshot of session "+s.ID, err)
		}
		if f.mg.resident { // it is dropped when it is copied
			s.replay = cost
		}
		if found, err = store.Get(ctx, s.ID); err != nil { // it may have been trimmed
			return f.mg.storeError("looking for session "+s.ID, err)
		}
	}
	kept, err := store.Snapshots(ctx, s.ID)
	if err != nil {
		return f.mg.storeError("looking for snapshots of session "+s.ID, err)
	}
	first := int64(0) // that can be recovered
	if found.Start > 0 {
		first = end
		if len(kept) > 0 {
			first = max(kept[0].Offset, found.Start+1) // there has to be a record
		}
	}
	if f.at < first || f.at > end {
		bad := FieldError{"at_offset", fmt.Sprint(f.at), fmt.Sprintf("%d to %d", first, end)}
		if f.at >= 0 && f.at < first {
			return &TrimmedError{bad}
		}
		return &bad
	}
	f.snapshot = -1
	for _, k := range kept {
		if k.Offset <= f.at {
			f.snapshot = k.Offset
		}
	}
	if f.start = found.Start; f.history == HistoryTail && f.snapshot > 0 {
		return f.tail(ctx)
	}
	if f.history == HistoryFull && found.Start > 0 {
		return &FieldError{"history", HistoryFull, HistoryTail + ": the session has its text from offset " + fmt.Sprint(found.Start) + " on only"}
	}
	return nil
}

// tail begins the log with the record before the snapshot's end, so that there is one.
func (f *fork) tail(ctx context.Context) error {
	stop := errors.New("found")
	err := f.mg.options.Store.Read(ctx, f.from.ID, f.snapshot-1, func(at int64, _ sessionlog.Record) error {
		f.start = at
		return stop
	})
	if err != nil && !errors.Is(err, stop) && !errors.Is(err, sessionlog.ErrRange) { // it may begin with the snapshot
		return f.mg.storeError("reading the log of session "+f.from.ID, err)
	}
	return nil
}

// fresh is the session to be made, which is not complete.
func (f *fork) fresh(who Caller, r ForkRequest) (*session, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("session: id: %w", err)
	}
	f.to = f.mg.fresh(who, id.String(), f.from.Settings, CreateRequest{Labels: r.Labels, TTL: r.TTL, History: f.history})
	f.to.Complete = false
	f.to.Parent = &Parent{ID: f.from.ID, Offset: f.at}
	f.to.Numerics = slices.Clone(f.from.Numerics)
	for n := len(f.to.Numerics) - 1; n > 0 && f.to.Numerics[n].From > f.at; n-- {
		f.to.Numerics = f.to.Numerics[:n]
	}
	return f.to, nil
}

// copy copies the log and the snapshot, and gives the text after the last whole record, up to the fork's offset. It needs the lock of from, unless
// that keeps all of its text.
func (f *fork) copy(ctx context.Context) (cut []byte, err error) {
	mg, store := f.mg, f.mg.options.Store
	c := copier{mg: mg, to: f.to, at: f.start}
	if f.at > f.start {
		done := errors.New("done")
		err = store.Read(ctx, f.from.ID, f.start, func(at int64, r sessionlog.Record) error {
			if at+int64(len(r.Text)) <= f.at {
				return c.add(ctx, r)
			}
			cut = bytes.Clone(r.Text[:f.at-at])
			return done
		})
		if err != nil && !errors.Is(err, done) {
			return nil, mg.storeError("copying session "+f.from.ID, err)
		}
	}
	if err := c.flush(ctx); err != nil {
		return nil, mg.storeError("copying session "+f.from.ID, err)
	}
	if f.snapshot >= 0 && f.snapshot <= c.at {
		err := store.ReadSnapshot(ctx, f.from.ID, f.snapshot, func(r io.Reader) error {
			return store.WriteSnapshot(ctx, f.to.ID, f.to.epoch, f.snapshot, func(w io.Writer) error {
				_, err := io.Copy(w, r)
				return err
			})
		})
		if err != nil {
			return nil, mg.storeError("copying a snapshot of session "+f.from.ID, err)
		}
	}
	return cut, nil
}

// finish feeds what is left of a record that was cut, for its totals; and in a store that is memory makes the state.
func (f *fork) finish(ctx context.Context, cut []byte) error {
	mg, to := f.mg, f.to
	found, err := mg.options.Store.Get(ctx, to.ID)
	if err != nil {
		return mg.storeError("looking for session "+to.ID, err)
	}
	to.seen = to.stored(found)
	feed := feeder{mg: mg, s: to, emit: func(Chunk) error { return nil }, admitted: true}
	if err := feed.all(ctx, cut); err != nil {
		return err
	}
	if !mg.resident {
		return nil
	}
	if err := mg.lock(ctx, to); err != nil {
		return err
	}
	defer mg.unlock(to)
	return mg.dropSnapshots(ctx, to)
}

// dropSnapshots drops what a store that is memory has no more use for. It needs the lock.
func (mg *Manager) dropSnapshots(ctx context.Context, s *session) error {
	kept, err := mg.options.Store.Snapshots(ctx, s.ID)
	for _, k := range kept {
		err = errors.Join(err, mg.options.Store.DropSnapshot(ctx, s.ID, s.epoch, k.Offset))
	}
	if err != nil {
		return mg.storeError("dropping snapshots of session "+s.ID, err)
	}
	return nil
}

// copier appends records to a session that is being made.
type copier struct {
	mg      *Manager
	to      *session
	at      int64 // the end of what was appended
	records []sessionlog.Record
	bytes   int
}

// add copies the text.
func (c *copier) add(ctx context.Context, r sessionlog.Record) error {
	r.Text = bytes.Clone(r.Text)
	c.records = append(c.records, r)
	if c.bytes += len(r.Text); c.bytes < copyBytes {
		return nil
	}
	return c.flush(ctx)
}

func (c *copier) flush(ctx context.Context) error {
	if len(c.records) == 0 {
		return nil
	}
	if err := c.mg.reserveText(c.to, c.bytes, len(c.records)); err != nil {
		return err
	}
	if err := c.mg.options.Store.Append(ctx, c.to.ID, c.to.epoch, c.at, c.records...); err != nil {
		return err
	}
	c.at += int64(c.bytes)
	c.records, c.bytes = c.records[:0], 0
	return nil
}
