package session

import (
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
	"github.com/lmserve/lmserve/weights"
)

// export writes a session to w as one file. The file is made before its first byte is written, and
// neither its content nor the file is in memory: both are in temporary files.
func (e *engine) export(ctx context.Context, s *liveSession, w io.Writer) error {
	made, err := spool.New()
	if err != nil {
		return err
	}
	defer made.Close()
	if err := e.pack(ctx, s, made); err != nil {
		return err
	}
	return made.CopyTo(w)
}

// pack makes the file of a session as it is now.
func (e *engine) pack(ctx context.Context, s *liveSession, made *spool.Spool) error {
	content, err := spool.New()
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := e.exportFile(ctx, s, content)
	if err != nil {
		return err
	}
	return e.packs(ctx, func() error {
		return made.Fill(func(w io.Writer) error { return pack(f, w) })
	})
}

// pack writes the file, compressed and under its seal.
func pack(f *weights.Stored, w io.Writer) error {
	if err := seal(f); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(exportLevel), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	if err := f.Write(z); err != nil {
		_ = z.Close() // the first error says more
		return fmt.Errorf("session: export: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

// exportFile is the session as it is now, with its data in a spool. A drain waits for it, but not
// for the packing and the sending, which may take long.
func (e *engine) exportFile(
	ctx context.Context, s *liveSession, content *spool.Spool,
) (f *weights.Stored, err error) {
	if err := e.life.Enter(); err != nil {
		return nil, err
	}
	defer e.life.Leave()
	if err := e.states.openCurrent(ctx, s); err != nil {
		return nil, err
	}
	defer s.unlock()
	err = e.packs(ctx, func() error {
		f, err = e.contentLocked(ctx, s, content)
		return err
	})
	return f, err
}

// contentLocked writes state and log of a session to the spool.
func (e *engine) contentLocked(
	ctx context.Context, s *liveSession, content *spool.Spool,
) (*weights.Stored, error) {
	f, err := s.stream.Stored()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	if f, err = f.Keep(content, content); err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	found, err := e.journal.get(ctx, s)
	if err != nil {
		return nil, err
	}
	l, err := e.columnsLocked(ctx, s, found, content)
	if err != nil {
		return nil, err
	}
	f.Metadata[keyHead] = string(s.encode())
	f.Tensors = append(f.Tensors, l.tensors()...)
	return f, nil
}

// columnsLocked reads the session's log. It is counted before, so that every column has its place.
func (e *engine) columnsLocked(
	ctx context.Context, s *liveSession, found sessionlog.Session, content *spool.Spool,
) (*columns, error) {
	records, bytes := int64(0), found.End-found.Start
	err := e.store().Read(ctx, s.ID, found.Start, func(int64, sessionlog.Record) error {
		records++
		return nil
	})
	if err != nil {
		return nil, storeError("reading the log of session "+s.ID, err)
	}
	l, err := newColumns(s.Settings.Baseline, records, bytes, content)
	if err != nil {
		return nil, err
	}
	err = e.store().Read(ctx, s.ID, found.Start, func(at int64, r sessionlog.Record) error {
		if r.UnixMS == uncounted && at+int64(len(r.Text)) == s.stream.Tally.Bytes {
			r.Bits, r.Baseline = s.stream.Tally.Bits, s.stream.Baseline.Bits
		}
		return l.append(at, r)
	})
	if err != nil {
		return nil, storeError("reading the log of session "+s.ID, err)
	}
	return l, l.flush()
}
