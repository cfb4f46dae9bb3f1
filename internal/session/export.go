package session

import (
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// content makes what is exported, which takes memory until the allowance is returned.
type content func(memory *budget.Allowance) (*weights.File, error)

// export writes a content to w as one file. The file is made before its first byte is written, and
// its content takes memory until then: what is left to do waits for the reader and takes none.
func (e *engine) export(ctx context.Context, w io.Writer, make content) error {
	made, err := newSpool()
	if err != nil { // there is no folder for temporary files: the content stays in memory
		return e.withContent(make, func(f *weights.File) error { return pack(f, w) })
	}
	defer made.close()
	err = e.withContent(make, func(f *weights.File) error {
		return e.packs(ctx, func() error {
			return made.fill(func(w io.Writer) error { return pack(f, w) })
		})
	})
	if err != nil {
		return err
	}
	return made.copyTo(w)
}

// withContent hands use a content, which takes memory until use returns.
func (e *engine) withContent(make content, use func(*weights.File) error) error {
	memory := e.states.budget.Allow()
	defer memory.Return()
	f, err := make(memory)
	if err != nil {
		return err
	}
	return use(f)
}

// pack writes the file, compressed and under its seal.
func pack(f *weights.File, w io.Writer) error {
	if err := seal(f); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(exportLevel), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	if err := weights.Write(z, f); err != nil {
		_ = z.Close() // the first error says more
		return fmt.Errorf("session: export: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

// exportFile is the session as it is now. A drain waits for it, but not for the writing, which may
// take long.
func (e *engine) exportFile(
	ctx context.Context, s *liveSession, memory *budget.Allowance,
) (*weights.File, error) {
	if err := e.life.Enter(); err != nil {
		return nil, err
	}
	defer e.life.Leave()
	if err := e.states.openCurrent(ctx, s); err != nil {
		return nil, err
	}
	defer s.unlock()
	if err := memory.Draw(stream.StateBytes(e.model, s.Settings)); err != nil {
		return nil, memoryError(err)
	}
	found, err := e.journal.get(ctx, s)
	if err != nil {
		return nil, err
	}
	return exportOf(ctx, &s.head, s.stream, e.store(), found.Start, found.End, memory)
}

// exportOf puts a head, a state and the log from start to end, where the state is, together.
func exportOf(
	ctx context.Context, h *head, st *stream.Stream, log logReader, start, end int64,
	memory *budget.Allowance,
) (*weights.File, error) {
	f, err := st.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	l, err := readColumns(ctx, h, st, log, start, end, memory)
	if err != nil {
		return nil, err
	}
	f.Metadata[keyHead] = string(h.encode())
	f.Tensors = append(f.Tensors, l.tensors()...)
	return f, nil
}

// readColumns reads a log. It is counted before: columns that grow as they are filled would take a
// multiple of their memory.
func readColumns(
	ctx context.Context, h *head, st *stream.Stream, log logReader, start, end int64,
	memory *budget.Allowance,
) (*columns, error) {
	records, bytes := 0, end-start
	err := log.Read(ctx, h.ID, start, func(int64, sessionlog.Record) error {
		records++
		return nil
	})
	if err != nil {
		return nil, storeError("reading the log of session "+h.ID, err)
	}
	if err := memory.Draw(bytes + rowBytes*int64(records)); err != nil {
		return nil, memoryError(err)
	}
	l := newColumns(h.Settings.Baseline, records, int(bytes))
	err = log.Read(ctx, h.ID, start, func(at int64, r sessionlog.Record) error {
		if r.UnixMS == uncounted && at+int64(len(r.Text)) == st.Tally.Bytes {
			r.Bits, r.Baseline = st.Tally.Bits, st.Baseline.Bits
		}
		l.append(at, r)
		return nil
	})
	if err != nil {
		return nil, storeError("reading the log of session "+h.ID, err)
	}
	return l, nil
}
