package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// fork makes a new session that shares the log and snapshots of another session, without copying.
// The state of the new session is recovered as after a restart: from the last snapshot before the
// fork's offset and the text after this snapshot.
type fork struct {
	engine   *engine
	index    *index
	from, to *session
	history  string
	at       int64
	cut      storage.Cut
	kept     []int64
	rest     []byte // text from cut.End to the fork's offset
	lesson   stream.Lesson
}

// run makes the fork. Until the store has made it, run keeps the original session's state locked.
// So the original session can neither trim its log nor drop snapshots meanwhile.
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
	if err := f.planLocked(ctx, r.AtOffset); err != nil {
		return Info{}, err
	}
	var err error
	if f.to, err = f.fresh(who, r); err != nil {
		return Info{}, err
	}
	m := creation{who: who, s: f.to, disk: f.takes()}
	m.store = func() error {
		// After unlock, the original state may be evicted from memory in favor of the fork's state.
		defer unlock()
		return f.shareLocked(ctx)
	}
	m.fill = func() error { return f.finish(ctx) }
	return f.index.build(ctx, m)
}

func (f *fork) takes() (bytes int64) {
	bytes = storage.SessionCharge
	if len(f.rest) > 0 {
		r := storage.Record{Text: f.rest, Skipped: f.lesson.Skipped}
		if f.from.model.OfWords() {
			r.Words = new(storage.Words)
		}
		bytes += storage.RecordCharge + int64(recordSize(&r))
	}
	return bytes
}

func (f *fork) shareLocked(ctx context.Context) error {
	bytes, records, err := f.sharedText(ctx)
	if err != nil {
		return err
	}
	if err := f.engine.chargeRecords(f.to, bytes, records); err != nil {
		return err
	}
	return f.index.fork(ctx, f.from, f.to, f.cut)
}

// sharedText returns the bytes and the number of the shared records if the store is in memory, else
// 0. The fork is charged for these records, because they stay in memory even if the original
// session is deleted.
func (f *fork) sharedText(ctx context.Context) (bytes, records int, err error) {
	store := f.engine.store
	if store.Durable() || f.cut.Start == f.cut.End {
		return 0, 0, nil
	}
	err = store.Read(ctx, f.from.ID, f.cut.Start, func(at int64, r storage.Record) error {
		if at < f.cut.End {
			bytes, records = bytes+recordSize(&r), records+1
		}
		return nil
	})
	return bytes, records, f.readError(err)
}

// tidyLocked drops the original session's snapshot that was taken for the fork. It keeps snapshots
// in a durable store, because they also serve recovery.
func (f *fork) tidyLocked() {
	if !f.engine.store.Durable() {
		// The only possible error is that the session was deleted, with its snapshots.
		_ = f.from.dropSnapshotsLocked(context.Background())
	}
}

func (f *fork) planLocked(ctx context.Context, asked *int64) error {
	s, e := f.from, f.engine
	if err := s.currentLocked(ctx); err != nil {
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
	kept, err := e.store.Snapshots(ctx, s.ID)
	if err != nil {
		return storeError("looking for snapshots of session "+s.ID, err)
	}
	if err := f.checkOffset(found, kept, end); err != nil {
		return err
	}
	f.cut = storage.Cut{Start: found.Start, End: f.at}
	if err := f.endAtRecord(ctx, end); err != nil {
		return err
	}
	for _, k := range kept {
		if k.Offset >= found.Start && k.Offset <= f.cut.End {
			f.kept = append(f.kept, k.Offset)
		}
	}
	if n := len(f.kept); f.history == HistoryTail && n > 0 && f.kept[n-1] > 0 {
		return f.beginTail(ctx)
	}
	if f.history == HistoryFull && found.Start > 0 {
		want := HistoryTail + ", because the session's text begins at offset " +
			fmt.Sprint(found.Start)
		return &FieldError{"history", HistoryFull, want}
	}
	return nil
}

// snapshotLocked prepares a fork at the end of the original session's text. It takes a snapshot
// only if recovery would otherwise be impossible or take too long. It returns the stored session.
func (f *fork) snapshotLocked(ctx context.Context, end int64) (storage.Session, error) {
	s := f.from
	found, err := s.get(ctx)
	if err != nil {
		return found, err
	}
	if f.at != end {
		return found, nil
	}
	taken, err := s.snapshotForForkLocked(ctx, found.Start)
	if err != nil || !taken {
		return found, err
	}
	return s.get(ctx) // taking the snapshot may have trimmed the log
}

// checkOffset returns an error if the state at the requested offset cannot be recovered.
func (f *fork) checkOffset(found storage.Session, kept []storage.Snapshot, end int64) error {
	first := int64(0)
	if found.Start > 0 {
		first = end
		if len(kept) > 0 {
			// a fork shares at least one record of the log
			first = max(kept[0].Offset, found.Start+1)
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

// errFound stops the reading of a log after the wanted record.
var errFound = errors.New("found")

// endAtRecord ends the shared log with the last whole record before the fork's offset. It stores
// the text between this record and the offset in the field rest.
func (f *fork) endAtRecord(ctx context.Context, end int64) error {
	if f.at == end {
		return nil
	}
	err := f.engine.store.Read(ctx, f.from.ID, f.at, func(at int64, r storage.Record) error {
		f.cut.End, f.rest = at, bytes.Clone(r.Text[:f.at-at])
		f.lesson = lessonOf(r).Until(r.Text, int(f.at-at))
		return errFound
	})
	return f.readError(err)
}

// beginTail shares the log only from the record before the last snapshot on. So the fork has at
// least one record.
func (f *fork) beginTail(ctx context.Context) error {
	last := f.kept[len(f.kept)-1]
	err := f.engine.store.Read(ctx, f.from.ID, last-1, func(at int64, _ storage.Record) error {
		f.cut.Start = at
		return errFound
	})
	// ErrRange means that the log begins at the snapshot.
	if errors.Is(err, storage.ErrRange) {
		return nil
	}
	return f.readError(err)
}

func (f *fork) readError(err error) error {
	if err == nil || errors.Is(err, errFound) {
		return nil
	}
	return storeError("reading the log of session "+f.from.ID, err)
}

func (f *fork) fresh(who Caller, r ForkRequest) (*session, error) {
	like := CreateRequest{Labels: r.Labels, TTL: r.TTL, History: f.history}
	to, err := f.index.fresh(who, r.Name, f.from.model, f.from.Settings, like)
	if err != nil {
		return nil, err
	}
	to.Complete = false
	to.Parent = &Parent{ID: f.from.ID, Offset: f.at}
	to.Numerics, to.LinesFrom = slices.Clone(f.from.Numerics), f.from.LinesFrom
	to.TroubleWords = f.from.TroubleWords
	to.Records, to.ByLine, to.Feedback = f.from.Records, f.from.ByLine, f.from.Feedback
	to.cutAt(f.at)
	return to, nil
}

// finish feeds the fork the text between the last shared record and the fork's offset, to compute
// the totals there. If the store is not durable, finish also computes the state now.
func (f *fork) finish(ctx context.Context) error {
	e, to := f.engine, f.to
	if err := to.lookLocked(ctx); err != nil {
		return err
	}
	feed := feeder{
		reports: reports{engine: e, s: to, emit: noChunks}, admitted: true, given: &f.lesson,
	}
	// The totals at the end of the shared log are known if the fork shares a record or begins at
	// offset 0.
	recorded := f.cut.Start == 0 || to.seen().offset > f.cut.Start
	if e.store.Durable() && recorded {
		feed.maxWait = e.forkRecovery
	}
	err := feed.all(ctx, f.rest)
	if errors.As(err, new(*RecoveringError)) {
		err = f.appendUncounted(ctx)
	}
	if err != nil {
		return err
	}
	return to.settleIn(ctx)
}

// appendUncounted appends the text before the fork's offset to the log without its totals. The
// fork's first use computes the totals, because the recovery of the state takes long.
func (f *fork) appendUncounted(ctx context.Context) error {
	to := f.to
	if err := to.lock(ctx); err != nil {
		return err
	}
	defer to.unlock()
	seen := to.seen()
	r := storage.Record{
		UnixMS: uncounted, HasBaseline: to.Settings.Baseline, Text: f.rest,
		ByLine: f.lesson.ByLine, Skipped: f.lesson.Skipped,
	}
	setTotals(&r, to.model.OfWords(), seen.tally, seen.baseline)
	if err := to.appendLocked(ctx, seen.offset, r); err != nil {
		return err
	}
	return to.lookLocked(ctx)
}
