package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// This file keeps the states in memory within their budget: who comes in, who goes out, and the snapshots that make it cheap to come back.

// reserveState takes memory for a session's stream. It drops the sessions that were not used for the longest time, and if all are at work it
// waits; the context ends the wait. It needs the session's lock, and takes others' only where it does not have to wait.
func (mg *Manager) reserveState(ctx context.Context, s *session) error {
	need := stream.StateBytes(mg.model, s.Settings)
	if need > mg.options.MaxMemoryBytes {
		return fmt.Errorf("%w: a state of %d bytes, there are %d for all", ErrFull, need, mg.options.MaxMemoryBytes)
	}
	for {
		done, out, changed, err := mg.tryReserve(s, need)
		switch {
		case err != nil || done:
			return err
		case out != nil:
			mg.evict(out)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-mg.options.Store.Failed():
			return mg.storeError("waiting for memory", mg.options.Store.Err())
		}
	}
}

// tryReserve reserves; or gives a session to drop, locked; or a channel that is closed when it is worth another try.
func (mg *Manager) tryReserve(s *session, need int64) (done bool, out *session, changed <-chan struct{}, err error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if s.gone {
		return false, nil, nil, ErrNotFound
	}
	full := mg.memoryFor(need)
	if full == nil {
		mg.take(s, need)
		return true, nil, nil, nil
	}
	if mg.resident {
		return false, nil, nil, full
	}
	if out = mg.victim(); out != nil {
		return false, out, nil, nil
	}
	if mg.room == nil {
		mg.room = make(chan struct{})
	}
	return false, nil, mg.room, nil
}

// victim gives the hot session that was not used for the longest time of those that nobody is at work on, and locks it. It needs mu.
func (mg *Manager) victim() *session {
	all := make([]*session, 0, len(mg.hot))
	for s := range mg.hot {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.turn, b.turn) })
	for _, s := range all {
		if s.tryLock() {
			return s
		}
	}
	return nil
}

// signal wakes those that wait for memory. It needs mu.
func (mg *Manager) signal() {
	if mg.room != nil {
		close(mg.room)
		mg.room = nil
	}
}

// evict drops a session from memory, and unlocks it. Without its snapshot it comes back all the same, only later.
func (mg *Manager) evict(s *session) {
	if s.replay >= replayWorth {
		mg.keep(s)
	}
	mg.drop(s)
	mg.unlock(s)
}

// drop makes a session cold. It needs the lock.
func (mg *Manager) drop(s *session) {
	s.stream = nil
	mg.mu.Lock()
	defer mg.mu.Unlock()
	mg.giveBack(s)
}

// keepIfDue takes a snapshot when a recovery would repeat too much. It needs the lock.
func (mg *Manager) keepIfDue(s *session) {
	if s.stream != nil && s.replay >= or(s.due, mg.options.ReplayMax) {
		mg.keep(s)
	}
}

// keep takes a snapshot. No request is to blame if that fails: it is reported, and tried again when as much has been computed once more.
func (mg *Manager) keep(s *session) {
	if mg.resident {
		mg.forget(s)
		return
	}
	err := mg.snapshot(context.Background(), s)
	if err == nil || mg.alive(s) != nil {
		return
	}
	s.due = s.replay + mg.options.ReplayMax
	mg.options.Report(fmt.Errorf("session: session %s: no snapshot at offset %d: %w", s.ID, s.stream.Tally.Bytes, err))
}

// forget is the keep of a store that is memory. Nothing will ever be recovered there, so there is no snapshot; and of a tail nothing is needed but the
// last record, for its totals. It needs the lock.
func (mg *Manager) forget(s *session) {
	if s.History != HistoryTail {
		return
	}
	if err := mg.trimMemory(context.Background(), s); err != nil && mg.alive(s) == nil {
		mg.options.Report(fmt.Errorf("session: session %s: its text before offset %d is not trimmed: %w", s.ID, s.stream.Tally.Bytes, err))
	}
	s.due = s.replay + mg.options.ReplayMax // a fork computes no less than before: replay stays
}

func (mg *Manager) trimMemory(ctx context.Context, s *session) error {
	store := mg.options.Store
	found, err := store.Get(ctx, s.ID)
	if err != nil || found.Last == nil {
		return err
	}
	var last int64 // offset of the last record
	var bytes, records int
	err = store.Read(ctx, s.ID, found.Start, func(at int64, r sessionlog.Record) error {
		last = at
		bytes += len(r.Text)
		records++
		return nil
	})
	if err != nil || records < 2 {
		return err
	}
	// The store trims what a snapshot makes superfluous. That the state is there does so here: the snapshot is an empty one, and not left behind.
	if err := store.WriteSnapshot(ctx, s.ID, s.epoch, found.End, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if err := errors.Join(store.Trim(ctx, s.ID, s.epoch, last), mg.dropSnapshots(ctx, s)); err != nil {
		return err
	}
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if n := mg.textBytes(bytes-int(found.End-last), records-1); !s.gone {
		s.reserved -= n
		mg.memory -= n
	}
	return nil
}

// snapshot writes the state to the store, and trims a log of which only the tail is kept: what is older than the older of two snapshots is never
// needed again. It needs the lock, and no worker.
func (mg *Manager) snapshot(ctx context.Context, s *session) error {
	mg.copies <- struct{}{}
	defer func() { <-mg.copies }()
	f, err := s.stream.Snapshot()
	if err != nil {
		return err
	}
	store := mg.options.Store
	err = store.WriteSnapshot(ctx, s.ID, s.epoch, s.stream.Tally.Bytes, func(w io.Writer) error { return weights.Write(w, f) })
	if err != nil && !errors.Is(err, sessionlog.ErrExists) {
		return err
	}
	s.replay, s.due = 0, 0
	if s.History != HistoryTail {
		return nil
	}
	kept, err := store.Snapshots(ctx, s.ID)
	if err != nil || len(kept) < sessionlog.KeptSnapshots {
		return err
	}
	return store.Trim(ctx, s.ID, s.epoch, kept[0].Offset)
}

// keepAll takes snapshots of what is hot, when nobody is at work any more. What the context leaves out is computed again after a restart.
func (mg *Manager) keepAll(ctx context.Context) {
	mg.mu.Lock()
	var all []*session
	for s := range mg.hot {
		all = append(all, s)
	}
	mg.mu.Unlock()
	for _, s := range all {
		if s.lock(ctx) != nil || mg.options.Store.Err() != nil {
			return
		}
		if s.stream != nil && s.replay >= replayWorth {
			mg.keep(s)
		}
		mg.unlock(s)
	}
}
