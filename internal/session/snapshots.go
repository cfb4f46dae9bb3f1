package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session/disk"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// snapshots writes states to the store, and reads them from there.
type snapshots struct {
	journal *journal
	room    *disk.Guard
	most    int           // snapshots that a session keeps for forks, beside those for recovery
	apart   time.Duration // computing between two of them
	rarest  time.Duration // computing between two of a session that has as many as it may
	told    Observer
	// under holds a token for every snapshot being written or read, which takes the memory of a
	// compressor.
	under chan struct{}
}

func newSnapshots(j *journal, room *disk.Guard, o Options) *snapshots {
	return &snapshots{
		journal: j, room: room, most: o.ForkSnapshots, apart: o.apart(), rarest: o.ReplayMax,
		told: o.Observer, under: make(chan struct{}, o.Threads),
	}
}

// writeLocked writes a state of the session to the store, and drops snapshots for which there is no
// more use. Of a log of which only the tail is kept, it trims what is older than the older of two
// snapshots and was read by all shadows: it is never needed again. It needs no worker. A snapshot that is there already is as
// good as a new one.
func (sn *snapshots) writeLocked(ctx context.Context, s *liveSession, st *stream.Stream) error {
	sn.under <- struct{}{}
	defer func() { <-sn.under }()
	begun := time.Now()
	err := sn.storeLocked(ctx, s, st)
	if err != nil && s.isGone(err) {
		return err
	}
	if sn.told.Snapshot(time.Since(begun), err); err != nil {
		return err
	}
	took := s.replay
	s.replay, s.due = 0, 0
	kept, err := sn.thinLocked(ctx, s, st.Offset(), took)
	if err != nil || s.History != HistoryTail || len(kept) < recoverySnapshots {
		return err
	}
	return sn.journal.trimLocked(ctx, s, min(kept[0], s.unread()))
}

// storeLocked writes a state to the store, unless the store has it.
func (sn *snapshots) storeLocked(ctx context.Context, s *liveSession, st *stream.Stream) error {
	f, err := st.Stored()
	if err != nil {
		return fmt.Errorf("session: taking a snapshot of session %s: %w", s.ID, err)
	}
	err = sn.journal.writeSnapshotLocked(ctx, s, st.Offset(), f.Write)
	if errors.Is(err, sessionlog.ErrExists) {
		return nil
	}
	return err
}

// thinLocked drops the snapshots of a session that are superfluous now that there is one at an
// offset, to which computing from the one before has taken so long. It gives the offsets of those
// that are left. If these are as many as there may be, the next one is of use for recovery only.
func (sn *snapshots) thinLocked(
	ctx context.Context, s *liveSession, at int64, took time.Duration,
) (kept []int64, err error) {
	all, err := sn.journal.store.Snapshots(ctx, s.ID)
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
	most := sn.mostOf(s)
	drop := superfluous(kept, spacing(at-before, took, sn.apart), most)
	for _, old := range drop[:min(len(drop), dropsAtOnce)] {
		if err := sn.journal.dropSnapshotLocked(ctx, s, old); err != nil {
			return nil, err
		}
		kept = slices.DeleteFunc(kept, func(k int64) bool { return k == old })
	}
	if len(kept) >= most+recoverySnapshots {
		s.due = sn.rarest
	}
	return kept, nil
}

// mostOf is how many snapshots a session may keep for forks: none where only the tail of the text is
// kept, and none where the disk is better left to text.
func (sn *snapshots) mostOf(s *liveSession) int {
	if s.History == HistoryTail || !sn.room.Ample(s.Owner, s.stateBytes(s.model.Model)) {
		return 0
	}
	return sn.most
}

// read reads the state that a snapshot of the session is of.
func (sn *snapshots) read(ctx context.Context, s *liveSession, at int64) (*stream.Stream, error) {
	select {
	case sn.under <- struct{}{}:
		defer func() { <-sn.under }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return readSnapshot(ctx, s.weights, sn.journal.store, &s.head, at)
}

// snapshotLimits bound what reading a snapshot takes, which may be of an archive that somebody sent:
// the header is that of a model with hundreds of layers and eight banks at most.
var snapshotLimits = weights.Limits{HeaderBytes: 4 << 20, Window: 8 << 20}

// readSnapshot reads the state that a snapshot is of.
func readSnapshot(
	ctx context.Context, m *model.Model, store sessionlog.Store, h *head, at int64,
) (st *stream.Stream, err error) {
	err = store.ReadSnapshot(ctx, h.ID, at, func(r io.Reader) error {
		return weights.Scan(r, snapshotLimits, func(f *weights.Stored) error {
			st, err = h.restoreStream(m, f)
			if err == nil && st.Offset() != at {
				return fmt.Errorf("it is of offset %d, expected %d", st.Offset(), at)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// dropAllLocked drops the snapshots of a session of a store that is not durable, which has no more
// use for them: nothing is ever recovered from it.
func (sn *snapshots) dropAllLocked(ctx context.Context, s *liveSession) error {
	kept, err := sn.journal.store.Snapshots(ctx, s.ID)
	if err != nil {
		return storeError("dropping snapshots of session "+s.ID, err)
	}
	for _, k := range kept {
		err = errors.Join(err, sn.journal.dropSnapshotLocked(ctx, s, k.Offset))
	}
	return err
}

// trimVolatileLocked trims the log of a session of a store that is not durable, and gives the
// memory of the text back. The state is in memory for good, so of a tail nothing is needed but the
// last record, for its totals.
func (sn *snapshots) trimVolatileLocked(ctx context.Context, s *liveSession) error {
	store := sn.journal.store
	found, err := store.Get(ctx, s.ID)
	if err != nil || found.Last == nil {
		return err
	}
	var last int64 // offset of the last record
	var size, bytes, records int
	err = store.Read(ctx, s.ID, found.Start, func(at int64, r sessionlog.Record) error {
		last, size = at, recordSize(&r)
		bytes += size
		records++
		return nil
	})
	if err != nil || records < 2 || s.unread() < last {
		return err
	}
	// The store trims what a snapshot makes superfluous. That the state is in memory makes it
	// superfluous too: the snapshot is an empty one, and does not stay.
	nothing := func(io.Writer) error { return nil }
	if err := sn.journal.writeSnapshotLocked(ctx, s, found.End, nothing); err != nil {
		return err
	}
	if err := errors.Join(sn.journal.trimLocked(ctx, s, last), sn.dropAllLocked(ctx, s)); err != nil {
		return err
	}
	s.memory.Refund(textBytes(store, bytes-size, records-1))
	return nil
}

// recordSize is what a record takes beside what every record does: its text, the numbers of the
// lines that are not learnt, and the account of words.
func recordSize(r *sessionlog.Record) int {
	size := len(r.Text) + sessionlog.SkippedBytes*len(r.Skipped)
	if r.Words != nil {
		size += sessionlog.WordsBytes
	}
	return size
}

// textBytes is what records take of the memory, whose sizes are added up: nothing where the store is
// durable.
func textBytes(store sessionlog.Store, bytes, records int) int64 {
	if store.Durable() {
		return 0
	}
	return int64(bytes) + int64(records)*recordBytes
}
