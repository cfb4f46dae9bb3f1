package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// piece is a part of a log without gaps, between two offsets.
type piece struct {
	from, to int64
}

// rescue copies a readable part of a session, without gaps, to another store.
func rescue(
	ctx context.Context, from, to *Folder, s *session,
	cut func(id string, head []byte, end int64) []byte,
) (r Rescued, err error) {
	r.ID = s.id
	if damage, ok := errors.AsType[*storage.CorruptError](s.damage); ok {
		r.Lost = append(r.Lost, damage)
	}
	if s.head == nil {
		return r, nil
	}
	pieces, err := from.pieces(s, &r)
	if err != nil {
		return r, err
	}
	good, err := from.goodStates(ctx, s, &r)
	if err != nil {
		return r, err
	}
	keep := choose(pieces, good, s.start)
	head := s.head
	if s.damage != nil || keep.to < s.end {
		head = cut(s.id, head, keep.to)
	}
	epoch, err := to.Create(ctx, s.id, head, keep.from)
	if err != nil {
		return r, err
	}
	for n := range s.segments {
		if err := to.takeSegment(ctx, from, s, n, keep, epoch); err != nil {
			return r, err
		}
	}
	for _, k := range good {
		if k.Offset < keep.from || k.Offset > keep.to {
			continue
		}
		err := to.WriteSnapshot(ctx, s.id, epoch, k.Offset,
			storage.CopySnapshot(ctx, from, s.id, k.Offset))
		if err != nil {
			return r, err
		}
		r.Snapshots++
	}
	r.Kept, r.Start, r.End = true, keep.from, keep.to
	return r, nil
}

// pieces returns the readable parts of a log, and adds damage to r.Lost. It returns only other
// errors.
func (f *Folder) pieces(s *session, r *Rescued) (found []piece, err error) {
	for n := range s.segments {
		before := int64(math.MaxInt64)
		if n+1 < len(s.segments) {
			before = s.segments[n+1].offset
		}
		err := f.salvage(s, n, before, func(at int64, rec storage.Record) {
			if k := len(found) - 1; k >= 0 && found[k].to == at {
				found[k].to += int64(len(rec.Text))
			} else {
				found = append(found, piece{from: at, to: at + int64(len(rec.Text))})
			}
		})
		damage, ok := errors.AsType[*storage.CorruptError](err)
		if err != nil && !ok {
			return nil, err
		}
		if ok && s.damage == nil {
			r.Lost = append(r.Lost, damage)
		}
	}
	return found, nil
}

// salvage visits the records in the valid frames of segment n, including frames after invalid ones.
// It skips records that begin at or after the offset in the parameter `before`. The error is the
// first damage, or storage.ErrUnavailable.
func (f *Folder) salvage(
	s *session, n int, before int64, visit func(at int64, r storage.Record),
) (damage error) {
	name := hexName(segmentPrefix, uint64(s.segments[n].offset))
	b, err := f.read(f.file(s, segmentPrefix, s.segments[n].offset), s.segments[n].bytes)
	if err != nil {
		return f.unread(s, name, err)
	}
	found := func(at int, what error) {
		if damage == nil {
			damage = corrupt(s, name, int64(at), what)
		}
	}
	end, at := s.segments[n].offset, 0
	for at < len(b) && end < before {
		fr, err := readFrame(b[at:])
		if err == nil && fr.at != end {
			found(at, fmt.Errorf("found a frame with offset %d, expected offset %d", fr.at, end))
		}
		if err == nil && fr.at >= end {
			err = fr.each(func(at int64, r storage.Record) error {
				if end = at + int64(len(r.Text)); at >= s.start && at < before {
					visit(at, r)
				}
				return nil
			})
		}
		if err == nil {
			at += int(fr.size)
			continue
		}
		found(at, err)
		// A user's text may contain bytes that look like a frame. If the invalid frame has a valid
		// head, the search for the next frame therefore begins after the invalid frame's text.
		_, all, begins := frameBegins(b[at:])
		if at++; begins {
			at = int(min(int64(at)-1+all, int64(len(b))))
		}
		at += nextFrame(b[at:], end)
	}
	if n+1 < len(s.segments) && end < before {
		found(at, fmt.Errorf("the segment ends at offset %d, expected %d", end, before))
	}
	return damage
}

// goodStates returns the valid snapshots of a session, and adds the damage of invalid snapshots to
// r.Lost. It returns only other errors.
func (f *Folder) goodStates(
	ctx context.Context, s *session, r *Rescued,
) (good []*state, err error) {
	for _, k := range s.states {
		err := f.readState(ctx, s.id, k.Offset, func(io.Reader) error { return nil })
		var damage *storage.CorruptError
		switch {
		case err == nil:
			good = append(good, k)
		case errors.As(err, &damage):
			r.Lost = append(r.Lost, damage)
		default:
			return nil, err
		}
	}
	return good, nil
}

// choose returns the piece of the log to keep. start is the offset at which the log begins. The
// result is the piece that contains the newest valid snapshot. If no piece contains a snapshot, the
// result is the first piece. But if the beginning of the log is lost, it is the last piece.
func choose(pieces []piece, good []*state, start int64) piece {
	if len(pieces) == 0 {
		return piece{from: start, to: start}
	}
	for _, k := range slices.Backward(good) {
		for _, p := range pieces {
			if k.Offset >= p.from && k.Offset <= p.to {
				return p
			}
		}
	}
	if pieces[0].from != start {
		return pieces[len(pieces)-1]
	}
	return pieces[0]
}

// takeSegment copies the records of segment n that lie within the piece keep to the store f. from
// is the store that has the segment.
func (f *Folder) takeSegment(
	ctx context.Context, from *Folder, s *session, n int, keep piece, epoch uint64,
) error {
	var records []storage.Record
	at := int64(-1)
	before := keep.to
	if n+1 < len(s.segments) {
		before = min(before, s.segments[n+1].offset)
	}
	err := from.salvage(s, n, before, func(begin int64, r storage.Record) {
		if begin >= keep.from {
			if at < 0 {
				at = begin
			}
			records = append(records, r)
		}
	})
	// pieces has already reported damage
	if errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	return f.Append(ctx, s.id, epoch, at, records...)
}
