package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Append implements storage.Store. It writes all records in one frame, so that a power cut keeps
// either all or none.
func (f *Folder) Append(
	ctx context.Context, id string, epoch uint64, at int64, records ...storage.Record,
) error {
	if err := storage.CheckRecords(at, records); err != nil {
		return err
	}
	return f.change(ctx, id, epoch, func(s *session) error {
		if s.end != at {
			return &storage.SequenceError{Session: id, Have: s.end, Want: at}
		}
		if err := f.mend(s); err != nil {
			return err
		}
		if err := f.appendFrame(s, frameOf(at, records)); err != nil {
			return f.fault("appending to session "+id, err)
		}
		for _, r := range records {
			s.lastAt = s.end
			s.end += int64(len(r.Text))
		}
		last := records[len(records)-1]
		last.Text, last.Skipped = nil, slices.Clone(last.Skipped)
		if !last.HasBaseline {
			last.Baseline = 0
		}
		s.last = &last
		return nil
	})
}

// appendFrame writes a frame at the end of the last segment. It begins a new segment if the last
// segment is full or shared with another session.
func (f *Folder) appendFrame(s *session, b []byte) error {
	if n := len(s.segments); n > 0 && s.segments[n-1].bytes < segmentBytes {
		seg := &s.segments[n-1]
		path := f.file(s, segmentPrefix, seg.offset)
		out, err := f.files.OpenFile(path, os.O_WRONLY|nonblock, 0)
		if err != nil {
			return err
		}
		info, err := out.Stat()
		if err != nil {
			return errors.Join(err, out.Close())
		}
		if seg.shared = linksOf(path, info); seg.shared.links <= 1 {
			return f.writeFrame(s, seg, out, b)
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
	return f.beginSegment(s, b)
}

func (f *Folder) writeFrame(s *session, seg *segment, out file, b []byte) error {
	_, err := out.WriteAt(b, seg.bytes)
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		// After a failed write or sync, the disk may contain a part of the frame. Truncate removes
		// that part.
		s.suspect = firstError(func() error { return out.Truncate(seg.bytes) }, out.Sync) != nil
		if s.suspect {
			err = fmt.Errorf("%w: %w", storage.ErrUnknown, err)
		}
		return errors.Join(err, out.Close())
	}
	seg.bytes += int64(len(b))
	_ = out.Close() // an error does not matter, because the frame is already on the disk
	return nil
}

// beginSegment begins a new segment with a frame. If a file of the segment's name exists,
// beginSegment first removes the name. A power cut may have left the file empty, and a fork may
// share the file.
func (f *Folder) beginSegment(s *session, b []byte) error {
	path := f.file(s, segmentPrefix, s.end)
	if err := f.remove(path); err != nil {
		return err
	}
	if n := len(s.segments); n > 0 && s.segments[n-1].offset == s.end {
		// The last segment is empty, and its file is removed. If the new segment cannot be created,
		// settle must make the removal durable.
		s.segments, s.unsynced = s.segments[:n-1], true
	}
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|nonblock, 0o600)
	if err != nil {
		return err
	}
	// The new name must be durable before the segment has content. Otherwise a power cut could
	// bring back an older file of the same name, which would hide the new records.
	s.segments, s.unsynced = append(s.segments, segment{offset: s.end}), true
	if err := f.files.SyncDir(f.sessionPath(s.id)); err != nil {
		return errors.Join(err, out.Close())
	}
	s.unsynced = false
	return f.writeFrame(s, &s.segments[len(s.segments)-1], out, b)
}

// Read implements storage.Store.
func (f *Folder) Read(
	ctx context.Context, id string, from int64,
	visit func(at int64, r storage.Record) error,
) error {
	var begun *session
	var s session
	err := f.with(ctx, id, func(now *session) error {
		if from < now.start || from > now.end {
			return &storage.RangeError{Session: id, Offset: from, Start: now.start, End: now.end}
		}
		begun = now
		s = session{id: id, start: now.start, end: now.end, segments: slices.Clone(now.segments)}
		return nil
	})
	refused := false
	visitNext := func(at int64, r storage.Record) error {
		err := visit(at, r)
		refused, from = err != nil, at+int64(len(r.Text))
		return err
	}
	for err == nil {
		err = f.readLog(ctx, &s, from, visitNext)
		if refused || !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		// The damage may only be apparent. During the read, another call may have deleted or
		// trimmed the session, which overwrites its files. Forks may also have split segments.
		damage := err
		err = f.with(ctx, id, func(now *session) error {
			n := len(s.segments)
			switch {
			case now != begun: // the session was deleted, and another one was created
				return storage.NotFound(id)
			case now.start > from:
				return &storage.RangeError{Session: id, Offset: from, Start: now.start,
					End: now.end}
			case len(now.segments) >= n && slices.Equal(now.segments[:n], s.segments):
				return damage
			}
			s.segments = slices.DeleteFunc(slices.Clone(now.segments), func(g segment) bool {
				return g.offset >= s.end && g.offset > 0
			})
			return nil
		})
	}
	return err
}

// errVisit marks an error that the function visit returned, in contrast to an error of reading.
type errVisit struct{ error }

func (e errVisit) Unwrap() error { return e.error }

// readLog visits the records of the log from an offset on, beginning with the record that contains
// the offset.
func (f *Folder) readLog(
	ctx context.Context, s *session, from int64, visit func(int64, storage.Record) error,
) error {
	for n := range s.segments {
		next := s.end
		if n+1 < len(s.segments) {
			next = s.segments[n+1].offset
		}
		if next <= from && n+1 < len(s.segments) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		end, err := f.readSegment(s, &s.segments[n], next, func(at int64, r storage.Record) error {
			if at+int64(len(r.Text)) <= from || at < s.start {
				return nil
			}
			if err := visit(at, r); err != nil {
				return errVisit{err}
			}
			return nil
		})
		if visited, ok := errors.AsType[errVisit](err); ok {
			return visited.error
		}
		if err != nil {
			return err
		}
		if end != next {
			return corrupt(s, hexName(segmentPrefix, uint64(s.segments[n].offset)),
				s.segments[n].bytes,
				fmt.Errorf("the segment ends at offset %d, expected %d", end, next))
		}
	}
	return nil
}

// readSegment visits the records of a segment that begin before the offset in the parameter
// `before`. end is the offset at which the last of these records ends.
func (f *Folder) readSegment(
	s *session, seg *segment, before int64,
	visit func(int64, storage.Record) error,
) (end int64, err error) {
	name := hexName(segmentPrefix, uint64(seg.offset))
	b, err := f.read(f.file(s, segmentPrefix, seg.offset), seg.bytes)
	if err != nil {
		return 0, f.unread(s, name, err)
	}
	end = seg.offset
	for at := int64(0); at < int64(len(b)) && end < before; {
		fr, err := readFrame(b[at:])
		if err == nil && fr.at != end {
			err = fmt.Errorf("found a frame with offset %d, expected offset %d", fr.at, end)
		}
		if err != nil {
			return end, corrupt(s, name, at, err)
		}
		err = fr.each(func(at int64, r storage.Record) error {
			if end = at + int64(len(r.Text)); at >= before {
				return nil
			}
			return visit(at, r)
		})
		if err != nil {
			return end, ofVisit(s, name, at, err)
		}
		at += fr.size
	}
	return min(end, before), nil
}

// ofVisit returns an error of the function visit unchanged, and reports every other error as
// damage.
func ofVisit(s *session, name string, at int64, err error) error {
	if errors.As(err, new(errVisit)) {
		return err
	}
	return corrupt(s, name, at, err)
}

// border returns the offset of the beginning of the record that contains the given offset. It
// returns the end of the log if the offset is after all records.
func (f *Folder) border(s *session, offset int64) (at int64, err error) {
	if offset >= s.end {
		return s.end, nil
	}
	n := s.segmentOf(offset)
	if n < 0 {
		return s.start, nil
	}
	at = s.segments[n].offset
	_, err = f.readSegment(s, &s.segments[n], s.endOf(n),
		func(begin int64, _ storage.Record) error {
			if begin <= offset {
				at = begin
			}
			return nil
		})
	return at, err
}

// segmentOf returns the index of the segment that contains an offset. It returns -1 if the offset
// is before all segments.
func (s *session) segmentOf(offset int64) int {
	n, same := slices.BinarySearchFunc(s.segments, offset, func(seg segment, offset int64) int {
		return cmp.Compare(seg.offset, offset)
	})
	if same {
		return n
	}
	return n - 1
}

func (s *session) endOf(n int) int64 {
	if n+1 < len(s.segments) {
		return s.segments[n+1].offset
	}
	return s.end
}

// split begins a new segment at the offset, which must be the beginning of a record. It copies the
// records from the offset on to the new segment. The old segment keeps these records, but they are
// no longer read.
func (f *Folder) split(s *session, offset int64) error {
	n := s.segmentOf(offset)
	if n < 0 || s.segments[n].offset == offset || offset >= s.end {
		return nil
	}
	_, second, err := f.halves(s, n, offset)
	if err != nil {
		return err
	}
	err = f.rewrite(s, hexName(segmentPrefix, uint64(offset)), second)
	if written(err) {
		s.segments = slices.Insert(s.segments, n+1, segment{offset: offset,
			bytes: int64(len(second))})
	}
	return f.fault("splitting the log of session "+s.id, err)
}

// halves encodes the records of segment n as frames, one for each record. first has the records
// that begin before the offset; second has the rest.
func (f *Folder) halves(s *session, n int, offset int64) (first, second []byte, err error) {
	_, err = f.readSegment(s, &s.segments[n], s.endOf(n),
		func(at int64, r storage.Record) error {
			if b := frameOf(at, []storage.Record{r}); at < offset {
				first = append(first, b...)
			} else {
				second = append(second, b...)
			}
			return nil
		})
	return first, second, err
}

// cutAt removes the records after an offset from a segment, after split has copied them to the next
// segment. The offset must be the end of the log or the beginning of the next segment.
func (f *Folder) cutAt(s *session, offset int64) error {
	n := s.segmentOf(offset - 1)
	if n < 0 || s.segments[n].offset >= offset {
		return nil
	}
	seg := &s.segments[n]
	if end, found, err := f.lastFrame(newSession(s.id), seg); err != nil || found && end == offset {
		return err
	}
	first, _, err := f.halves(s, n, offset)
	if err != nil {
		return err
	}
	err = f.rewrite(s, hexName(segmentPrefix, uint64(seg.offset)), first)
	if written(err) {
		f.usage.drop(s, seg.shared, seg.bytes)
		*seg = segment{offset: seg.offset, bytes: int64(len(first))}
	}
	return f.fault("splitting the log of session "+s.id, err)
}

// Trim implements storage.Store.
func (f *Folder) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	return f.change(ctx, id, epoch, func(s *session) error {
		newest := s.start
		if n := len(s.states); n > 0 {
			newest = s.states[n-1].Offset
		}
		if before < 0 || before > newest {
			return &storage.RangeError{Session: id, Offset: before, Start: 0, End: newest}
		}
		start, err := f.border(s, before)
		if err != nil || start <= s.start {
			return err
		}
		if err := f.split(s, start); err != nil {
			return err
		}
		unknown := f.writeHead(s, headData{ID: id, Start: start}, s.head)
		if !written(unknown) {
			return unknown
		}
		if s.start = start; start == s.end {
			s.last, s.lastAt = nil, 0
		}
		for len(s.segments) > 0 && s.endOf(0) <= start {
			f.usage.drop(s, s.segments[0].shared, s.segments[0].bytes)
			s.leftovers = append(s.leftovers, hexName(segmentPrefix, uint64(s.segments[0].offset)))
			s.segments = s.segments[1:]
		}
		s.segments = slices.Clone(s.segments)
		if unknown != nil {
			return unknown
		}
		return f.mend(s)
	})
}
