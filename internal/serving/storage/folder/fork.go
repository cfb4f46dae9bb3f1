package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Fork implements storage.Store. The new session's folder gets hard links to the origin's files. If
// the cut begins or ends within a segment, that segment is first split there.
func (f *Folder) Fork(
	ctx context.Context, from, id string, head []byte, c storage.Cut,
) (epoch uint64, err error) {
	if err := storage.CheckFork(id, head, c); err != nil {
		return 0, err
	}
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.writing.RUnlock()
	err = f.with(ctx, from, func(origin *session) error {
		defer f.usage.update(origin)
		if from == id {
			return fmt.Errorf("storage: session %s: %w", id, storage.ErrExists)
		}
		if err := f.cut(origin, c); err != nil {
			return err
		}
		s := newSession(id)
		s.head, s.start, s.end = append([]byte{}, head...), c.Start, c.Start
		epoch, err = f.make(s, func(dir string) error { return f.share(origin, s, c, dir) })
		return err
	})
	return epoch, err
}

// cut splits a session's log so that segments begin or end at both ends of the cut.
func (f *Folder) cut(s *session, c storage.Cut) error {
	for _, at := range []int64{c.Start, c.End} {
		if at < s.start || at > s.end {
			return &storage.RangeError{Session: s.id, Offset: at, Start: s.start, End: s.end}
		}
		begin, err := f.border(s, at)
		if err != nil {
			return err
		}
		if begin != at {
			return storage.WithinRecord(s.id, at)
		}
	}
	return firstError(func() error { return f.mend(s) },
		func() error { return f.split(s, c.Start) },
		func() error { return f.split(s, c.End) }, func() error { return f.cutAt(s, c.End) })
}

// share makes hard links to the origin's segments and snapshots within the cut. The links are in
// dir, which becomes the folder of s.
func (f *Folder) share(origin, s *session, c storage.Cut, dir string) error {
	for n := range origin.segments {
		seg := &origin.segments[n]
		if seg.offset < c.Start || origin.endOf(n) > c.End || seg.bytes == 0 {
			continue
		}
		shared, err := f.link(f.file(origin, segmentPrefix, seg.offset), dir)
		if err != nil {
			return err
		}
		f.usage.share(origin, shared)
		seg.shared = shared
		s.segments = append(s.segments, *seg)
		s.end = origin.endOf(n)
	}
	for _, kept := range origin.states {
		if kept.Offset < c.Start || kept.Offset > c.End {
			continue
		}
		shared, err := f.link(f.file(origin, statePrefix, kept.Offset), dir)
		if err != nil {
			return err
		}
		f.usage.share(origin, shared)
		kept.shared = shared
		s.states = append(s.states, new(*kept))
	}
	s.claimed = s.end
	if c.End == origin.end && len(s.segments) > 0 && origin.last != nil {
		last := *origin.last
		s.last, s.lastAt = &last, origin.lastAt
		return nil
	}
	if n := len(s.segments); n > 0 {
		// The end of the log is read from the origin's files, because the fork's folder is not at
		// its final path yet.
		reader := &session{id: origin.id, segments: slices.Clone(s.segments)}
		if _, err := f.endOf(reader, n-1); err != nil {
			return err
		}
		s.last, s.lastAt = reader.last, reader.lastAt
	}
	return nil
}

// link makes a hard link to a file in dir, or copies the file if the file system has no hard links.
// It copies nothing if the disk is full.
func (f *Folder) link(path, dir string) (links, error) {
	return f.linkAs(path, filepath.Join(dir, filepath.Base(path)))
}

func (f *Folder) linkAs(path, to string) (links, error) {
	err := f.files.Link(path, to)
	if err == nil {
		info, err := os.Lstat(to)
		if err != nil {
			return links{}, err
		}
		return linksOf(to, info), nil
	}
	if isFull(err) {
		return links{}, err
	}
	in, _, opening := f.open(path)
	if opening != nil {
		return links{}, opening
	}
	defer in.Close()
	out, err := f.files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return links{}, err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return links{links: 1}, errors.Join(err, out.Close())
}
