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

// export writes a session to w as one file. Until the file is written, its content takes memory.
func (e *engine) export(ctx context.Context, s *liveSession, w io.Writer) error {
	memory := e.states.budget.Allow()
	defer memory.Return()
	f, err := e.exportFile(ctx, s, memory)
	if err != nil {
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
	f, err := s.stream.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	found, err := e.journal.get(ctx, s)
	if err != nil {
		return nil, err
	}
	l := columns{baseline: s.Settings.Baseline}
	err = e.store().Read(ctx, s.ID, found.Start, func(at int64, r sessionlog.Record) error {
		if r.UnixMS == uncounted && at+int64(len(r.Text)) == s.stream.Tally.Bytes {
			r.Bits, r.Baseline = s.stream.Tally.Bits, s.stream.Baseline.Bits
		}
		l.append(at, r)
		return memoryError(memory.Draw(int64(len(r.Text)) + rowBytes))
	})
	if err != nil {
		return nil, storeError("reading the log of session "+s.ID, err)
	}
	f.Metadata[keyHead] = string(s.encode())
	f.Tensors = append(f.Tensors, l.tensors()...)
	return f, seal(f)
}
