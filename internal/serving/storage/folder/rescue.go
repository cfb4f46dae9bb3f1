package folder

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// absent refuses a path at which there is something.
func absent(path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return fs.ErrExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// piece is a part of a log without a gap.
type piece struct {
	from, to int64
}

// rescue takes a session along, as far as it reads.
func rescue(ctx context.Context, from, to *Folder, s *session) (r Rescued, err error) {
	r.ID = s.id
	if damage, ok := errors.AsType[*storage.CorruptError](s.damage); ok {
		r.Lost = append(r.Lost, damage)
	}
	if s.head == nil {
		return r, nil // nobody knows what it was
	}
	pieces := from.pieces(s, &r)
	good := from.goodStates(ctx, s, &r)
	keep := choose(pieces, good, s.start)
	epoch, err := to.Create(ctx, s.id, s.head, keep.from)
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

// pieces reads the segments of a log, each as far as it goes.
func (f *Folder) pieces(s *session, r *Rescued) (found []piece) {
	for n := range s.segments {
		before := int64(math.MaxInt64)
		if n+1 < len(s.segments) {
			before = s.segments[n+1].offset
		}
		_, err := f.readSegment(s, &s.segments[n], before, func(at int64, rec storage.Record) error {
			if at < s.start {
				return nil
			}
			if k := len(found) - 1; k >= 0 && found[k].to == at {
				found[k].to += int64(len(rec.Text))
			} else {
				found = append(found, piece{from: at, to: at + int64(len(rec.Text))})
			}
			return nil
		})
		if damage, ok := errors.AsType[*storage.CorruptError](err); ok && s.damage == nil {
			r.Lost = append(r.Lost, damage)
		}
	}
	return found
}

// goodStates are the snapshots that verify.
func (f *Folder) goodStates(ctx context.Context, s *session, r *Rescued) (good []state) {
	for _, k := range s.states {
		err := f.readState(ctx, f.file(s, statePrefix, k.Offset), s.id, k.Offset,
			func(io.Reader) error { return nil })
		var damage *storage.CorruptError
		switch {
		case err == nil:
			good = append(good, k)
		case errors.As(err, &damage):
			r.Lost = append(r.Lost, damage)
		}
	}
	return good
}

// choose chooses a piece of a log that begins at an offset: the last one, if a snapshot lies in it
// or the text before it is gone; else the first.
func choose(pieces []piece, good []state, start int64) piece {
	if len(pieces) == 0 {
		return piece{from: start, to: start}
	}
	last := pieces[len(pieces)-1]
	if pieces[0].from != start {
		return last
	}
	for _, k := range good {
		if k.Offset >= last.from && k.Offset <= last.to {
			return last
		}
	}
	return pieces[0]
}

// takeSegment appends the records of a segment that lie in a piece.
func (f *Folder) takeSegment(
	ctx context.Context, from *Folder, s *session, n int, keep piece, epoch uint64,
) error {
	var records []storage.Record
	at := int64(-1)
	before := keep.to
	if n+1 < len(s.segments) {
		before = min(before, s.segments[n+1].offset)
	}
	_, err := from.readSegment(s, &s.segments[n], before, func(begin int64, r storage.Record) error {
		if begin >= keep.from && begin < keep.to {
			if at < 0 {
				at = begin
			}
			records = append(records, r)
		}
		return nil
	})
	if err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	return f.Append(ctx, s.id, epoch, at, records...)
}
