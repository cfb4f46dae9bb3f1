package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// exported is the content of a session's export: its state, and the log from offset start up to the
// offset of the state.
type exported struct {
	head  head
	start int64
	log   logReader
	state *stream.Stream
}

func (x *exported) write(ctx context.Context, w io.Writer) error {
	f, err := x.state.Stored()
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	content, err := spool.New()
	if err != nil {
		return err
	}
	defer content.Close()
	err = content.Fill(func(w io.Writer) error { return storage.CompressSnapshot(ctx, w, f.Write) })
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	state, err := content.Reader()
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	own, end := x.head, x.state.Offset()
	own.Deliveries = nil
	own.ShadowOf = "" // an imported session follows no other session
	a := folder.NewExporter(w, own.ID, own.Created)
	if err := a.Head(x.start, own.encode()); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	err = x.log.Read(ctx, own.ID, x.start, func(at int64, r storage.Record) error {
		if r.UnixMS == uncounted && at+int64(len(r.Text)) == end {
			own.count(&r, r.Words != nil, x.state.Tally, x.state.Baseline)
		}
		return a.Append(at, r)
	})
	if err != nil {
		return storeError("reading the log of session "+own.ID, err)
	}
	if err := cmp.Or(a.State(end, state), a.Close()); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

// export writes a session's archive to w. It first makes the whole archive in a temporary file. So
// nothing is written to w if making the archive fails.
func (e *engine) export(w io.Writer, make func(archive io.Writer) error) error {
	made, err := spool.New()
	if err != nil {
		return err
	}
	defer made.Close()
	if err := made.Fill(make); err != nil {
		return err
	}
	return made.CopyTo(w)
}

// exportWhole writes the session's current archive to a temporary file. A shutdown waits until the
// file is complete, but not until the client has received it.
func (e *engine) exportWhole(
	ctx context.Context, s *session, wait time.Duration, archive io.Writer,
) error {
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	if err := s.openCurrent(ctx, e.maxWaitOf(wait)); err != nil {
		return err
	}
	defer s.unlock()
	found, err := s.get(ctx)
	if err != nil {
		return err
	}
	x := exported{s.head, found.Start, e.store, s.stream}
	return e.packs(ctx, func() error { return x.write(ctx, archive) })
}
