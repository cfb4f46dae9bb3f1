package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file decides when snapshots of a session are taken, and which snapshots are kept.

const (
	// recoverySnapshots is how many snapshots a session keeps for recovery. A recovery starts at
	// the last one, or at the one before if the last is damaged.
	recoverySnapshots = 2
	// forkReplay is the longest computing time between two snapshots for forks. A fork reads a
	// state and recomputes the text after it: at most 5 seconds in all, if there are enough
	// snapshots.
	forkReplay = 4 * time.Second
	// dropsAtOnce limits how many snapshots are dropped when one is taken. Usually one is dropped,
	// and many only if the server's limit was lowered.
	dropsAtOnce = 8
)

// limitedSnapshots is a store whose snapshots are read by at most cap(slots) readers at once.
type limitedSnapshots struct {
	storage.Store
	slots chan struct{}
}

func (l limitedSnapshots) ReadSnapshot(
	ctx context.Context, id string, at int64, read func(io.Reader) error,
) error {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		return l.Store.ReadSnapshot(ctx, id, at, read)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// snapshotDueLocked reports whether a recovery from the last snapshot would repeat too much
// computing.
func (s *session) snapshotDueLocked() bool {
	return s.replayCost >= cmp.Or(s.snapshotAt, s.host.snapshots.apart)
}

// keepIfDueLocked takes a snapshot if a recovery would repeat too much computing.
func (s *session) keepIfDueLocked() {
	if s.stream != nil && s.snapshotDueLocked() {
		s.snapshotLocked(context.Background())
	}
}

// saveLocked takes a snapshot of the state in memory if that saves enough computing.
func (s *session) saveLocked(ctx context.Context) {
	if s.stateLocked() != nil && s.replayCost >= replayWorth {
		s.snapshotLocked(ctx)
	}
}

// snapshotLocked takes a snapshot if there is disk space, so that recovery of the session's state
// is cheap. If the store is not durable, it only trims text. An error affects no request, so it
// goes to the Manager's Report. After an error, the snapshot is tried again after some more
// computing.
func (s *session) snapshotLocked(ctx context.Context) {
	state := s.stateLocked()
	at := state.Offset()
	if !s.host.store.Durable() {
		s.trimTailLocked(at)
		return
	}
	if !s.mayTakeSnapshot() {
		s.snapshotAt = s.replayCost + s.host.snapshots.apart
		return
	}
	err := s.writeStateLocked(ctx, state)
	if err == nil || s.isGone(err) {
		return
	}
	s.snapshotAt = s.replayCost + s.host.snapshots.apart
	s.host.logError(fmt.Errorf("session: session %s: writing its state at offset %d: %w",
		s.ID, at, err))
}

// isGone reports whether a write has failed because the session was deleted. The store may have
// deleted the session although the session in memory is not marked as deleted yet.
func (s *session) isGone(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrNotFound) || s.alive() != nil
}

// stateLocked returns the stream to take a snapshot of, or nil if there is none. The stream may be
// that of an unfinished recovery. A recovery in another arithmetic does not count, because its
// intermediate states differ from the session's.
func (s *session) stateLocked() *stream.Stream {
	if s.stream == nil && s.paused != nil && s.paused.exact {
		return s.paused.stream
	}
	return s.stream
}

// mayTakeSnapshot reports whether there is disk space for another snapshot of a session. It allows
// a snapshot while the owner's disk usage is below the limit, even if the snapshot then exceeds the
// limit. At the limit the session accepts no more text, so a missing snapshot does not make
// recovery slower.
func (s *session) mayTakeSnapshot() bool {
	return s.host.disk.Room(s.Owner, 1) == nil &&
		s.host.disk.Fits(s.stateBytes(s.model.Model)) == nil
}

// snapshotForForkLocked takes a snapshot for a fork of all of the text; the log begins at start. It
// takes none if the fork can use an older snapshot and recompute the text after it quickly. taken
// reports whether it took a snapshot.
func (s *session) snapshotForForkLocked(ctx context.Context, start int64) (taken bool, err error) {
	cost, volatile := s.replayCost, !s.host.store.Durable()
	must := volatile && start > 0 // there is no other snapshot
	if s.stream == nil || cost < replayWorth && !must ||
		s.host.disk.Room(s.Owner, s.stateBytes(s.model.Model)) != nil {
		return false, nil
	}
	if err := s.writeStateLocked(ctx, s.stream); err != nil {
		return false, err
	}
	if volatile { // the snapshot is dropped after the fork has shared it
		s.replayCost = cost
	}
	return true, nil
}

// writeStateLocked writes a state to the store, and drops snapshots that are no longer needed. If
// the session has HistoryTail, it also trims the text before the oldest kept snapshot, except text
// that a shadow has not read. It needs no worker.
func (s *session) writeStateLocked(ctx context.Context, st *stream.Stream) error {
	s.host.snapshots.slots <- struct{}{}
	defer func() { <-s.host.snapshots.slots }()
	begun := time.Now()
	err := s.storeLocked(ctx, st)
	if err != nil && s.isGone(err) {
		return err
	}
	if s.host.observer.Snapshot(time.Since(begun), err); err != nil {
		return err
	}
	took := s.replayCost
	s.replayCost, s.snapshotAt = 0, 0
	kept, err := s.thinLocked(ctx, st.Offset(), took)
	if err != nil || s.History != HistoryTail || len(kept) < recoverySnapshots {
		return err
	}
	return s.trimLocked(ctx, min(kept[0], s.unread()))
}

// storeLocked writes a state to the store, unless the store has it already.
func (s *session) storeLocked(ctx context.Context, st *stream.Stream) error {
	f, err := st.Stored()
	if err != nil {
		return fmt.Errorf("session: taking a snapshot of session %s: %w", s.ID, err)
	}
	err = s.writeSnapshotLocked(ctx, st.Offset(), f.Write)
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// thinLocked drops superfluous snapshots after a new snapshot was taken at an offset. took is the
// computing time since the snapshot before the new one. It returns the offsets of the remaining
// snapshots. If the limit is reached, the next snapshot is taken later, because it serves only
// recovery.
func (s *session) thinLocked(
	ctx context.Context, at int64, took time.Duration,
) (kept []int64, err error) {
	all, err := s.host.store.Snapshots(ctx, s.ID)
	if err != nil {
		return nil, storeError("looking for snapshots of session "+s.ID, err)
	}
	before := int64(0)
	for _, k := range all {
		kept = append(kept, k.Offset)
		if k.Offset < at {
			before = k.Offset
		}
	}
	forks := s.snapshotsMax()
	drop := superfluous(kept, spacing(at-before, took, s.host.snapshots.apart), forks)
	for _, old := range drop[:min(len(drop), dropsAtOnce)] {
		if err := s.dropSnapshotLocked(ctx, old); err != nil {
			return nil, err
		}
		kept = slices.DeleteFunc(kept, func(k int64) bool { return k == old })
	}
	if len(kept) >= forks+recoverySnapshots {
		s.snapshotAt = s.host.snapshots.rarest
	}
	return kept, nil
}

// snapshotsMax returns how many snapshots a session may keep for forks. It returns 0 if the session
// keeps only the tail of its text, or if the disk space should be left for text.
func (s *session) snapshotsMax() int {
	if s.History == HistoryTail || !s.host.disk.Ample(s.Owner, s.stateBytes(s.model.Model)) {
		return 0
	}
	return s.host.snapshots.max
}

// spacing returns how many bytes of text can be computed in the time apart, given that the
// parameter bytes took the time took. It returns 0 if took is not known.
func spacing(bytes int64, took, apart time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(bytes) * float64(apart) / float64(took))
}

// superfluous returns the snapshots to drop, given the offsets of all snapshots in ascending order.
// The newest snapshots stay for recovery. At most max of the older snapshots stay for forks, more
// than spacing apart. Each step drops the snapshot that leaves the smallest gap, so that gaps grow
// evenly with the text. The start of the text counts as a neighbor. If snapshots were taken evenly,
// no gap is more than twice the length of the text divided by max.
func superfluous(kept []int64, spacing int64, max int) (drop []int64) {
	kept = slices.Clone(kept)
	for older := len(kept) - recoverySnapshots; older > 0; older-- {
		smallest, which, before := int64(-1), 0, int64(0)
		for n, at := range kept[:older] {
			if gap := kept[n+1] - before; smallest < 0 || gap < smallest {
				smallest, which = gap, n
			}
			before = at
		}
		if older <= max && smallest > spacing {
			break
		}
		drop = append(drop, kept[which])
		kept = slices.Delete(kept, which, which+1)
	}
	return drop
}

// dropDamagedLocked drops snapshots that a restoration could not read. They would otherwise be kept
// in place of good ones.
func (s *session) dropDamagedLocked(ctx context.Context, r *restoration) error {
	for ; len(r.damaged) > 0; r.damaged = r.damaged[1:] {
		if err := s.dropSnapshotLocked(ctx, r.damaged[0]); err != nil {
			return err
		}
	}
	return nil
}

// dropSnapshotsLocked drops the snapshots of a session whose store is not durable: the session is
// never recovered from them.
func (s *session) dropSnapshotsLocked(ctx context.Context) error {
	kept, err := s.host.store.Snapshots(ctx, s.ID)
	if err != nil {
		return storeError("dropping snapshots of session "+s.ID, err)
	}
	for _, k := range kept {
		err = errors.Join(err, s.dropSnapshotLocked(ctx, k.Offset))
	}
	return err
}

// trimTailLocked is snapshotLocked for a store that is not durable. It takes no snapshot, and only
// trims text that is no longer needed.
func (s *session) trimTailLocked(at int64) {
	if s.History != HistoryTail {
		return
	}
	if err := s.trimVolatileLocked(context.Background()); err != nil && !s.isGone(err) {
		s.host.logError(fmt.Errorf("session: session %s: the text before offset %d could not be "+
			"deleted: %w",
			s.ID, at, err))
	}
	// No snapshot was taken, so a fork still computes as much as before: replayCost stays.
	s.snapshotAt = s.replayCost + s.host.snapshots.apart
}

// trimVolatileLocked trims the log of a session whose store is not durable, and releases the memory
// of the text. The state stays in memory. So a session with HistoryTail needs only the last record
// of its log, for the totals.
func (s *session) trimVolatileLocked(ctx context.Context) error {
	store := s.host.store
	found, err := store.Get(ctx, s.ID)
	if err != nil || found.Last == nil {
		return err
	}
	var last int64 // offset of the last record
	var size, bytes, records int
	err = store.Read(ctx, s.ID, found.Start, func(at int64, r storage.Record) error {
		last, size = at, recordSize(&r)
		bytes += size
		records++
		return nil
	})
	if err != nil || records < 2 || s.unread() < last {
		return err
	}
	// A store trims only text before a snapshot. With the state in memory no snapshot is needed. So
	// an empty snapshot is written, and dropped at once.
	nothing := func(io.Writer) error { return nil }
	if err := s.writeSnapshotLocked(ctx, found.End, nothing); err != nil {
		return err
	}
	if err := errors.Join(s.trimLocked(ctx, last), s.dropSnapshotsLocked(ctx)); err != nil {
		return err
	}
	s.memory.Refund(textBytes(store, bytes-size, records-1))
	return nil
}

// recordSize returns the part of a record's size that varies: its text, the numbers of the lines
// that are not learned, and the word counts.
func recordSize(r *storage.Record) int {
	size := len(r.Text) + storage.SkippedBytes*len(r.Skipped)
	if r.Words != nil {
		size += storage.WordsBytes
	}
	return size
}

// textBytes returns the memory of records with these total sizes: none if the store is durable.
func textBytes(store storage.Store, bytes, records int) int64 {
	if store.Durable() {
		return 0
	}
	return int64(bytes) + int64(records)*recordBytes
}

// unread returns the first offset of the session's text that some shadow has not read. Without
// shadows it returns the session's offset.
func (s *session) unread() int64 {
	from := s.seen().offset
	for _, shadow := range s.shadows() {
		from = min(from, shadow.seen().offset)
	}
	return from
}

func (s *session) writeSnapshotLocked(
	ctx context.Context, at int64, write func(io.Writer) error,
) error {
	return s.writeLocked("taking a snapshot of", func(epoch uint64) error {
		return s.host.store.WriteSnapshot(ctx, s.ID, epoch, at, write)
	})
}

func (s *session) dropSnapshotLocked(ctx context.Context, at int64) error {
	return s.writeLocked("dropping a snapshot of", func(epoch uint64) error {
		return s.host.store.DropSnapshot(ctx, s.ID, epoch, at)
	})
}

func (s *session) trimLocked(ctx context.Context, before int64) error {
	return s.writeLocked("trimming the log of", func(epoch uint64) error {
		return s.host.store.Trim(ctx, s.ID, epoch, before)
	})
}
