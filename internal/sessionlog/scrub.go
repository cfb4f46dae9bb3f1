package sessionlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// ScrubOptions are those of Scrub.
type ScrubOptions struct {
	ReadsPerSecond int                 // of a page or a block of a snapshot; at least 1
	Report         func(*CorruptError) // told of what is wrong
	Rest           time.Duration       // of ScrubForever between two rounds; 0: scrubRest
}

// Scrub reads once through the database's pages and the snapshots' files, slowly, and reports what
// is wrong with them; it changes nothing. While a commit makes a page another, the walk through the
// pages may meet both: a finding counts only if a second walk, which no commit has crossed, has it
// too. Damage to the structure makes writing unsafe, since bbolt copies what it reads: it ends the
// store (Failed), and the next opening rebuilds the database.
func (f *Folder) Scrub(ctx context.Context, o ScrubOptions) error {
	pause := time.Second / time.Duration(max(1, o.ReadsPerSecond))
	if err := f.scrubPages(ctx, pause, o.Report); err != nil {
		return err
	}
	shared := map[string]bool{} // files that were read
	return Each(ctx, f, func(x Session) error {
		if x.Err != nil {
			return nil // it is listed so
		}
		kept, err := f.Snapshots(ctx, x.ID)
		if err != nil {
			return f.scrubbed(err, o.Report)
		}
		for _, s := range kept {
			if shared[s.file(x.ID)] {
				continue
			}
			if s.owner != "" {
				shared[s.file(x.ID)] = true
			}
			err := f.scrubSnapshot(ctx, x.ID, s, pause)
			if err != nil {
				if _, gone := f.snapshot(ctx, x.ID, s.Offset); errors.Is(gone, ErrNotFound) {
					continue
				}
			}
			if err := f.scrubbed(err, o.Report); err != nil {
				return err
			}
		}
		return nil
	})
}

// scrubbed reports damage, and returns another error.
func (f *Folder) scrubbed(err error, report func(*CorruptError)) error {
	var damage *CorruptError
	if errors.As(err, &damage) && f.Err() == nil {
		report(damage)
		return nil
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func (f *Folder) scrubPages(
	ctx context.Context, pause time.Duration, report func(*CorruptError),
) error {
	slow := func(db file, size int64) error {
		_, err := inspectPages(&slowReader{ctx: ctx, r: db, pause: pause}, size, nil, func(*CorruptError) {})
		return errors.Join(err, ctx.Err())
	}
	err := f.withDatabase(slow)
	if err == nil || !errors.Is(err, ErrCorrupt) || ctx.Err() != nil {
		return err
	}
	// Between commits, at full speed: the committer does nothing else meanwhile.
	check := &write{inspect: true}
	if err := f.write(ctx, check); errors.Is(err, ErrCorrupt) {
		var damage *CorruptError
		errors.As(err, &damage)
		report(damage)
		return f.fail(fmt.Errorf("found by reading through it: %w", damage))
	} else if err != nil {
		return err
	}
	return nil
}

// slowReader waits before every read.
type slowReader struct {
	ctx   context.Context
	r     io.ReaderAt
	pause time.Duration
}

func (s *slowReader) ReadAt(p []byte, at int64) (int, error) {
	if err := wait(s.ctx, s.pause); err != nil {
		return 0, err
	}
	return s.r.ReadAt(p, at)
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// scrubSnapshot compares a snapshot's file with its checksum, 32 KiB a read.
func (f *Folder) scrubSnapshot(
	ctx context.Context, id string, s Snapshot, pause time.Duration,
) error {
	in, err := verify(ctx, slowFiles{f.files, ctx, pause}, f.dir, id, s)
	if err != nil {
		return err
	}
	return in.Close()
}

// slowFiles waits before every read of a file.
type slowFiles struct {
	fileSystem
	ctx   context.Context
	pause time.Duration
}

func (s slowFiles) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	in, err := s.fileSystem.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &slowFile{in, s.ctx, s.pause}, nil
}

type slowFile struct {
	file
	ctx   context.Context
	pause time.Duration
}

func (s *slowFile) Read(p []byte) (int, error) {
	if err := wait(s.ctx, s.pause); err != nil {
		return 0, err
	}
	return s.file.Read(p)
}

const (
	scrubRest = time.Hour
	// ScrubReads is a rate that a disk does not notice: 1 to 4 MB a second.
	ScrubReads = 100
)

// ScrubForever scrubs again and again, until the context or the store ends.
func (f *Folder) ScrubForever(ctx context.Context, o ScrubOptions) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for f.Scrub(ctx, o) == nil && wait(ctx, cmp.Or(o.Rest, scrubRest)) == nil {
	}
}
