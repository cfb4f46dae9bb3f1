package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Memory is a Store in memory: its sessions are lost when the process ends.
type Memory struct {
	mu       sync.Mutex
	sessions map[string]*memorySession
	epoch    uint64
	closed   bool
}

type memorySession struct {
	epoch     uint64
	start     int64
	head      []byte
	records   []*memoryRecord // immutable, because forks share the records
	snapshots []memorySnapshot
}

type memoryRecord struct {
	at int64
	Record
}

func (r *memoryRecord) end() int64 { return r.at + int64(len(r.Text)) }

type memorySnapshot struct {
	Snapshot
	data []byte // the output of CompressSnapshot
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{sessions: map[string]*memorySession{}}
}

func (s *memorySession) end() int64 {
	if n := len(s.records); n > 0 {
		return s.records[n-1].end()
	}
	return s.start
}

func (s *memorySession) session(id string) Session {
	d := Session{ID: id, Epoch: s.epoch, Head: bytes.Clone(s.head), Start: s.start, End: s.end()}
	if n := len(s.records); n > 0 {
		d.Last, d.LastAt = s.records[n-1].withoutText(), s.records[n-1].at
	}
	return d
}

// enter locks m.mu. If enter returns no error, the caller must unlock m.mu.
func (m *Memory) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func (m *Memory) with(ctx context.Context, id string, do func(s *memorySession) error) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil {
		return NotFound(id)
	}
	return do(s)
}

// owned calls the function `do` with a session that do may change. It returns a FencedError if
// epoch is not that of the session's last claim.
func (m *Memory) owned(ctx context.Context, id string, epoch uint64,
	do func(s *memorySession) error) error {
	return m.with(ctx, id, func(s *memorySession) error {
		if s.epoch != epoch {
			return &FencedError{Session: id, Have: s.epoch, Want: epoch}
		}
		return do(s)
	})
}

// Create implements Store.
func (m *Memory) Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64,
	err error) {
	if err := CheckCreate(id, head, start); err != nil {
		return 0, err
	}
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if m.sessions[id] != nil {
		return 0, fmt.Errorf("storage: session %s: %w", id, ErrExists)
	}
	m.epoch++
	m.sessions[id] = &memorySession{epoch: m.epoch, start: start, head: append([]byte{}, head...)}
	return m.epoch, nil
}

// Fork implements Store.
func (m *Memory) Fork(
	ctx context.Context, from, id string, head []byte, c Cut,
) (epoch uint64, err error) {
	if err := CheckFork(id, head, c); err != nil {
		return 0, err
	}
	err = m.with(ctx, from, func(s *memorySession) error {
		if m.sessions[id] != nil {
			return fmt.Errorf("storage: session %s: %w", id, ErrExists)
		}
		fork, err := s.fork(from, c)
		if err != nil {
			return err
		}
		m.epoch++
		epoch = m.epoch
		fork.epoch, fork.head = epoch, append([]byte{}, head...)
		m.sessions[id] = fork
		return nil
	})
	return epoch, err
}

// fork returns a session with the records and the snapshots of s that lie in the cut c.
func (s *memorySession) fork(id string, c Cut) (*memorySession, error) {
	var edges [2]int // the numbers of records before c.Start and before c.End
	for n, at := range []int64{c.Start, c.End} {
		if at < s.start || at > s.end() {
			return nil, &RangeError{Session: id, Offset: at, Start: s.start, End: s.end()}
		}
		edges[n] = len(s.records)
		if at < s.end() {
			edges[n] = s.after(at) - 1
			if s.records[edges[n]].at != at {
				return nil, WithinRecord(id, at)
			}
		}
	}
	fork := &memorySession{records: slices.Clone(s.records[edges[0]:edges[1]])}
	fork.start = c.Start
	for _, kept := range s.snapshots {
		if kept.Offset >= c.Start && kept.Offset <= c.End {
			fork.snapshots = append(fork.snapshots, kept)
		}
	}
	return fork, nil
}

// Claim implements Store.
func (m *Memory) Claim(ctx context.Context, id string) (found Session, err error) {
	err = m.with(ctx, id, func(s *memorySession) error {
		m.epoch++
		s.epoch = m.epoch
		found = s.session(id)
		return nil
	})
	return found, err
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, id string) (found Session, err error) {
	err = m.with(ctx, id, func(s *memorySession) error {
		found = s.session(id)
		return nil
	})
	return found, err
}

// List implements Store.
func (m *Memory) List(ctx context.Context, after string, limit int) (found []Session, err error) {
	if limit < 1 {
		return nil, Invalid("limit %d, expected 1 or more", limit)
	}
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var ids []string
	for id := range m.sessions {
		if id > after {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, strings.Compare)
	for _, id := range ids[:min(limit, len(ids))] {
		found = append(found, m.sessions[id].session(id))
	}
	return found, nil
}

// SetHead implements Store.
func (m *Memory) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := CheckHead(head); err != nil {
		return err
	}
	return m.owned(ctx, id, epoch, func(s *memorySession) error {
		s.head = append([]byte{}, head...)
		return nil
	})
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, id string, epoch uint64) error {
	return m.with(ctx, id, func(s *memorySession) error {
		if epoch != 0 && s.epoch != epoch {
			return &FencedError{Session: id, Have: s.epoch, Want: epoch}
		}
		delete(m.sessions, id)
		return nil
	})
}

// Append implements Store.
func (m *Memory) Append(ctx context.Context, id string, epoch uint64, at int64,
	records ...Record) error {
	if err := CheckRecords(at, records); err != nil {
		return err
	}
	return m.owned(ctx, id, epoch, func(s *memorySession) error {
		if end := s.end(); end != at {
			return &SequenceError{Session: id, Have: end, Want: at}
		}
		for _, r := range records {
			r.Text, r.Skipped = bytes.Clone(r.Text), slices.Clone(r.Skipped)
			if !r.HasBaseline {
				r.Baseline = 0
			}
			s.records = append(s.records, &memoryRecord{at, r})
			at += int64(len(r.Text))
		}
		return nil
	})
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, id string, from int64,
	visit func(at int64, r Record) error) error {
	var records []*memoryRecord
	err := m.with(ctx, id, func(s *memorySession) error {
		if from < s.start || from > s.end() {
			return &RangeError{Session: id, Offset: from, Start: s.start, End: s.end()}
		}
		if from == s.end() {
			return nil
		}
		records = slices.Clone(s.records[s.after(from)-1:])
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(r.at, r.Record); err != nil {
			return err
		}
	}
	return nil
}

// after returns the number of records that begin at or before an offset.
func (s *memorySession) after(at int64) int {
	return sort.Search(len(s.records), func(i int) bool { return s.records[i].at > at })
}

// Trim implements Store.
func (m *Memory) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	return m.owned(ctx, id, epoch, func(s *memorySession) error {
		newest := s.start
		if n := len(s.snapshots); n > 0 {
			newest = s.snapshots[n-1].Offset
		}
		if before < 0 || before > newest {
			return &RangeError{Session: id, Offset: before, Start: 0, End: newest}
		}
		n := 0
		for n < len(s.records) && s.records[n].end() <= before {
			s.start = s.records[n].end()
			n++
		}
		s.records = slices.Clone(s.records[n:])
		return nil
	})
}

// WriteSnapshot implements Store.
func (m *Memory) WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64,
	write func(io.Writer) error) error {
	admit := func(s *memorySession) error { return s.admit(id, at) }
	if err := m.owned(ctx, id, epoch, admit); err != nil {
		return err
	}
	var data bytes.Buffer
	if err := CompressSnapshot(ctx, &data, write); err != nil {
		return fmt.Errorf("storage: writing a snapshot of session %s at offset %d: %w", id, at, err)
	}
	return m.owned(ctx, id, epoch, func(s *memorySession) error {
		if err := admit(s); err != nil {
			return err
		}
		kept := append(slices.Clone(s.snapshots), memorySnapshot{
			Snapshot: Snapshot{Offset: at, Bytes: int64(data.Len()),
				SHA256: sha256.Sum256(data.Bytes())},
			data: data.Bytes(),
		})
		slices.SortFunc(kept, func(a, b memorySnapshot) int { return int(a.Offset - b.Offset) })
		s.snapshots = kept
		return nil
	})
}

func (s *memorySession) admit(id string, at int64) error {
	if s.snapshot(at) >= 0 {
		return SnapshotExists(id, at)
	}
	return CheckSnapshot(id, at, s.start, s.end(), len(s.snapshots))
}

// snapshot returns the index of the snapshot at an offset, or -1 if there is none.
func (s *memorySession) snapshot(at int64) int {
	return slices.IndexFunc(s.snapshots,
		func(kept memorySnapshot) bool { return kept.Offset == at })
}

// Snapshots implements Store.
func (m *Memory) Snapshots(ctx context.Context, id string) (found []Snapshot, err error) {
	err = m.with(ctx, id, func(s *memorySession) error {
		for _, kept := range s.snapshots {
			found = append(found, kept.Snapshot)
		}
		return nil
	})
	return found, err
}

// ReadSnapshot implements Store.
func (m *Memory) ReadSnapshot(ctx context.Context, id string, at int64,
	read func(io.Reader) error) error {
	var data []byte
	err := m.with(ctx, id, func(s *memorySession) error {
		n := s.snapshot(at)
		if n < 0 {
			return SnapshotNotFound(id, at)
		}
		data = s.snapshots[n].data
		return nil
	})
	if err != nil {
		return err
	}
	return DecompressSnapshot(bytes.NewReader(data), read)
}

// DropSnapshot implements Store.
func (m *Memory) DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error {
	return m.owned(ctx, id, epoch, func(s *memorySession) error {
		n := s.snapshot(at)
		if n < 0 {
			return SnapshotNotFound(id, at)
		}
		s.snapshots = slices.Delete(slices.Clone(s.snapshots), n, n+1)
		return nil
	})
}

// Durable implements Store; it returns false.
func (m *Memory) Durable() bool { return false }

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.closed = true
	m.sessions = nil
	return nil
}

var _ Store = (*Memory)(nil)
