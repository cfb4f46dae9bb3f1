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
	// recoverySnapshots is how many snapshots a session keeps for recovery: the last snapshot, and
	// the previous snapshot in case the last is damaged.
	recoverySnapshots = 2
	// forkReplay is the longest computing time between two snapshots for forks. With enough
	// snapshots, a fork takes at most 5 seconds: it reads a state and recomputes the text after the
	// state.
	forkReplay = 4 * time.Second
	// dropsAtOnce limits how many snapshots are dropped when a snapshot is taken. Usually at most
	// one is superfluous. Many are superfluous if the server's limit was lowered.
	dropsAtOnce = 8
)

// limitedSnapshots is a store that reads at most cap(slots) snapshots at the same time.
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

func (s *session) keepIfDueLocked() {
	if s.stream != nil && s.snapshotDueLocked() {
		s.snapshotLocked(context.Background())
	}
}

func (s *session) saveLocked(ctx context.Context) {
	if s.stateLocked() != nil && s.replayCost >= replayWorth {
		s.snapshotLocked(ctx)
	}
}

// snapshotLocked takes a snapshot if there is disk space, so that recovery of the session's state
// is fast. If the store is not durable, it only trims text. An error affects no request, so it goes
// to Options.Report. After an error, the next attempt follows after some more computing.
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

// isGone reports whether a write failed because the session was deleted. The store may have deleted
// the session before the session in memory is marked as deleted.
func (s *session) isGone(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrNotFound) || s.alive() != nil
}

// stateLocked returns the stream for a snapshot, or nil if there is none. The stream of an
// unfinished recovery is used only if its arithmetic is the log's. Otherwise its intermediate
// states differ from the session's.
func (s *session) stateLocked() *stream.Stream {
	if s.stream == nil && s.paused != nil && s.paused.exact {
		return s.paused.stream
	}
	return s.stream
}

// mayTakeSnapshot reports whether there is disk space for another snapshot of a session. A snapshot
// may exceed the owner's limit if the usage before is below the limit. At the limit, the session
// accepts no more text, so a missing snapshot does not make recovery slower.
func (s *session) mayTakeSnapshot() bool {
	return s.host.disk.Room(s.Owner, 1) == nil &&
		s.host.disk.Fits(s.stateBytes(s.model.Model)) == nil
}

// snapshotForForkLocked takes a snapshot at the end of the text for a fork, and reports whether it
// did. It takes none if the fork can quickly recompute the text after an older snapshot. Parameter
// start is the offset at which the log begins.
func (s *session) snapshotForForkLocked(ctx context.Context, start int64) (taken bool, err error) {
	cost, volatile := s.replayCost, !s.host.store.Durable()
	// Without the beginning of the log, a fork needs a snapshot, and there is no other.
	must := volatile && start > 0
	if s.stream == nil || cost < replayWorth && !must ||
		s.host.disk.Room(s.Owner, s.stateBytes(s.model.Model)) != nil {
		return false, nil
	}
	if err := s.writeStateLocked(ctx, s.stream); err != nil {
		return false, err
	}
	// The snapshot is dropped after the fork, so it does not shorten later replays.
	if volatile {
		s.replayCost = cost
	}
	return true, nil
}

// writeStateLocked writes a state to the store, and drops snapshots that are no longer needed. With
// HistoryTail, it also trims the text before the oldest kept snapshot, except text that a shadow
// has not read. It needs no worker.
func (s *session) writeStateLocked(ctx context.Context, st *stream.Stream) error {
	select {
	case s.host.snapshots.slots <- struct{}{}:
		defer func() { <-s.host.snapshots.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
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

// thinLocked drops superfluous snapshots after a new snapshot at an offset, and returns the offsets
// of the remaining snapshots. Parameter took is the computing time between the new snapshot and the
// previous one. If the session has all its snapshots for forks, the next snapshot is taken later,
// because it serves only recovery.
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

// spacing returns how many bytes of text can be computed in the time apart. Computing n bytes took
// the time took, where n is the parameter bytes. It returns 0 if took is unknown.
func spacing(bytes int64, took, apart time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(bytes) * float64(apart) / float64(took))
}

// superfluous returns the snapshots to drop, given the offsets of all snapshots in ascending order.
// The newest snapshots stay for recovery. Each step drops the older snapshot whose removal leaves
// the smallest gap, counting the start of the text as a neighbor. The steps end when at most max
// older snapshots remain, and each removal would leave a gap larger than spacing. If snapshots were
// taken at equal distances, no gap is more than twice the length of the text divided by max.
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

// dropDamagedLocked drops snapshots that a restoration could not read. Otherwise they would be kept
// in place of readable snapshots.
func (s *session) dropDamagedLocked(ctx context.Context, r *restoration) error {
	for ; len(r.damaged) > 0; r.damaged = r.damaged[1:] {
		if err := s.dropSnapshotLocked(ctx, r.damaged[0]); err != nil {
			return err
		}
	}
	return nil
}

// dropSnapshotsLocked drops the snapshots of a session whose store is not durable, because the
// session is never recovered from snapshots.
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

// trimTailLocked replaces snapshotLocked for a store that is not durable. It takes no snapshot, and
// only trims text that is no longer needed.
func (s *session) trimTailLocked(at int64) {
	if s.History != HistoryTail {
		return
	}
	if err := s.trimVolatileLocked(context.Background()); err != nil && !s.isGone(err) {
		s.host.logError(fmt.Errorf("session: session %s: the text before offset %d could not be "+
			"deleted: %w",
			s.ID, at, err))
	}
	// replayCost stays unchanged, because no snapshot was taken.
	s.snapshotAt = s.replayCost + s.host.snapshots.apart
}

// trimVolatileLocked trims the log of a session whose store is not durable, and releases the memory
// of the text. The state stays in memory, so a session with HistoryTail needs only the last record
// of its log, for the totals.
func (s *session) trimVolatileLocked(ctx context.Context) error {
	store := s.host.store
	found, err := store.Get(ctx, s.ID)
	if err != nil || found.Last == nil {
		return err
	}
	var last int64
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
	// A store trims only text before a snapshot. A real snapshot is unnecessary while the state is
	// in memory, so an empty snapshot is written and dropped at once.
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

// recordSize returns the variable part of a record's size in bytes: the text, the numbers of lines
// that are not learned, and the word counts.
func recordSize(r *storage.Record) int {
	size := len(r.Text) + storage.SkippedBytes*len(r.Skipped)
	if r.Words != nil {
		size += storage.WordsBytes
	}
	return size
}

// textBytes returns the memory of records with the given total size and number, or 0 if the store
// is durable.
func textBytes(store storage.Store, bytes, records int) int64 {
	if store.Durable() {
		return 0
	}
	return int64(bytes) + int64(records)*recordBytes
}

// unread returns the first offset of the session's text that some shadow has not read. Without
// shadows, unread returns the session's offset.
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
