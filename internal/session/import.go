package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
	"github.com/lmserve/lmserve/weights"
)

const (
	// importWindow is the largest window of a zstd stream that is imported; what zstd makes up to
	// its level 19 has no larger one.
	importWindow = 8 << 20
	// importHeader is the largest header of a file that is imported: that of a model with hundreds
	// of layers and eight banks.
	importHeader = 4 << 20
	// importReadings is how often the data of the file is read: for its seal, for the other checks,
	// and when it is stored.
	importReadings = 3
)

// importing is an import under way.
type importing struct {
	engine *engine
	index  *index
}

// run makes a session of a file that Export wrote. The name that the file has in its head is not
// that of the new session.
func (im *importing) run(
	ctx context.Context, who Caller, r io.Reader, name string,
) (Info, error) {
	received, err := spool.Receive(r)
	var reading *spool.ReadError
	switch {
	case errors.As(err, &reading):
		return Info{}, &BodyError{Offset: -1, Err: reading.Err}
	case err != nil:
		return Info{}, err
	}
	defer received.Close()
	plain, err := spool.New()
	if err != nil {
		return Info{}, err
	}
	defer plain.Close()
	p, err := im.engine.parse(ctx, received, plain)
	if err != nil {
		return Info{}, err
	}
	h := p.head
	like := CreateRequest{Labels: h.Labels, TTL: h.TTL, History: h.History}
	s, err := im.index.fresh(who, name, p.model, h.Settings, like)
	if err != nil {
		return Info{}, err
	}
	s.Complete, s.Parent = false, h.Parent
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	if n := len(s.encode()); n > sessionlog.MaxHeadBytes {
		return Info{}, fmt.Errorf("%w: metadata %s: a head of %d bytes, expected at most %d",
			ErrImport, keyHead, n, sessionlog.MaxHeadBytes)
	}
	store := func() error { return im.index.create(ctx, s, p.log.start) }
	fill := func() error { return im.fill(ctx, s, p) }
	return im.index.build(ctx, creation{
		who: who, s: s, store: store, fill: fill, disk: p.takes(s.ID),
	})
}

// fill writes what was parsed.
func (im *importing) fill(ctx context.Context, s *session, p *parsed) error {
	e := im.engine
	c := copier{engine: e, to: s, at: p.log.start}
	err := p.log.each(func(_, _ int64, r sessionlog.Record) error { return c.copy(ctx, r) })
	if err != nil {
		return err
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := s.writeSnapshotLocked(ctx, c.at, p.snapshot.Write); err != nil {
		return err
	}
	if err := s.lookLocked(ctx); err != nil {
		return err
	}
	return s.settleIn(ctx)
}

// parse takes a file apart, whose content goes to the spool plain, and checks everything that can be
// checked without computing the session again. While it does, there is a state more in memory.
func (e *engine) parse(ctx context.Context, received, plain *spool.Spool) (p *parsed, err error) {
	err = e.packs(ctx, func() error {
		f, err := unpack(received, plain, e.imports)
		if err != nil {
			return importError(err)
		}
		e.imports.file("storing", f, importReadings)
		p, err = parseExport(e.models, f)
		return importError(err)
	})
	if err != nil {
		return nil, err
	}
	state := e.budget.OpenOn(p.model.base(), nil)
	defer state.Close()
	m, err := e.reserveFor(ctx, state, p.model, p.head.stateBytes(p.model.Model))
	if err != nil {
		return nil, err
	}
	return p, e.packs(ctx, func() error { return importError(p.check(m)) })
}

// unpack reads a file, which may be compressed. The data of its tensors goes to the spool plain.
func unpack(
	received, plain *spool.Spool, progress Progress,
) (f *weights.Stored, err error) {
	whole, err := received.Reader()
	if err != nil {
		return nil, err
	}
	r := toldFile{whole, progress.part("unpacking", whole.Size())}
	limits := weights.Limits{Window: importWindow, HeaderBytes: importHeader}
	err = weights.Scan(r, limits, func(in *weights.Stored) error {
		f, err = in.Keep(plain, plain)
		return err
	})
	return f, err
}

// importError is the error of a file that is no export; a full disk is not the file's fault.
func importError(err error) error {
	if err == nil || errors.Is(err, spool.ErrNoSpace) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrImport, err)
}
