package session

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// contentMaker makes what an export has in it, with its data in a spool.
type contentMaker func(content *spool.Spool) (*weights.Stored, error)

// export writes a session to w as one file. The file is made before its first byte is written, and
// neither its content nor the file is in memory: both are in temporary files.
func (e *engine) export(ctx context.Context, w io.Writer, make contentMaker) error {
	made, err := spool.New()
	if err != nil {
		return err
	}
	defer made.Close()
	if err := e.pack(ctx, made, make); err != nil {
		return err
	}
	return made.CopyTo(w)
}

// pack makes the file of a session.
func (e *engine) pack(ctx context.Context, made *spool.Spool, make contentMaker) error {
	content, err := spool.New()
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := make(content)
	if err != nil {
		return err
	}
	return e.packs(ctx, func() error {
		return made.Fill(func(w io.Writer) error { return pack(f, w) })
	})
}

// How often the making of a file reads the text of its session, and pack the data of the file.
const (
	exportReadings = 3
	packReadings   = 2
)

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
	ctx context.Context, s *session, wait time.Duration, content *spool.Spool,
) (f *weights.Stored, err error) {
	if err := e.life.Enter(); err != nil {
		return nil, err
	}
	defer e.life.Leave()
	if err := s.openCurrent(ctx, e.maxWaitOf(wait)); err != nil {
		return nil, err
	}
	defer s.unlock()
	found, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	err = e.packs(ctx, func() error {
		f, err = exportOf(ctx, &s.head, s.stream, e.store, found.Start, found.End, content)
		return err
	})
	return f, err
}

// exportOf puts a head, a state and the log from start to end, where the state is, together.
func exportOf(
	ctx context.Context, h *head, st *stream.Stream, log logReader, start, end int64,
	content *spool.Spool,
) (*weights.Stored, error) {
	f, err := st.Stored()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	if f, err = f.Keep(content, content); err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	l, err := readColumns(ctx, h, st, log, start, end, content)
	if err != nil {
		return nil, err
	}
	own := *h
	own.ShadowOf = "" // the file is that of a session of its own
	f.Metadata[keyHead] = string(own.encode())
	f.Tensors = append(f.Tensors, l.tensors()...)
	return f, nil
}

// readColumns reads a log. It is counted before, so that every column has its place.
func readColumns(
	ctx context.Context, h *head, st *stream.Stream, log logReader, start, end int64, content *spool.Spool,
) (*columns, error) {
	has := logExtent{bytes: end - start, words: st.OfWords()}
	has.continued = !has.words && st.Tally.Chars < st.Tally.Bytes
	err := log.Read(ctx, h.ID, start, func(_ int64, r sessionlog.Record) error {
		has.records++
		has.skipped += int64(len(r.Skipped))
		return nil
	})
	if err != nil {
		return nil, storeError("reading the log of session "+h.ID, err)
	}
	l, err := newColumns(h, has, content)
	if err != nil {
		return nil, err
	}
	err = log.Read(ctx, h.ID, start, func(at int64, r sessionlog.Record) error {
		if r.UnixMS == uncounted && at+int64(len(r.Text)) == st.Offset() {
			setTotals(&r, r.Words != nil, st.Tally, st.Baseline)
		}
		return l.append(at, r)
	})
	if err != nil {
		return nil, storeError("reading the log of session "+h.ID, err)
	}
	return l, l.flush()
}
