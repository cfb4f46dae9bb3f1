package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// importing is an import under way.
type importing struct {
	engine *engine
	roster *roster
}

// run makes a session of a file that Export wrote.
func (im *importing) run(ctx context.Context, who Caller, r io.Reader) (Info, error) {
	memory := im.engine.states.budget.Allow()
	defer memory.Return()
	f, err := readCharged(memory, r)
	if err != nil {
		return Info{}, err
	}
	var p *parsed
	err = im.engine.packs(ctx, func() (err error) {
		p, err = im.engine.parse(f, memory)
		return err
	})
	switch {
	case errors.Is(err, ErrFull), err != nil && ctx.Err() != nil:
		return Info{}, err
	case err != nil:
		return Info{}, fmt.Errorf("%w: %w", ErrImport, err)
	}
	h := p.head
	like := CreateRequest{Labels: h.Labels, TTL: h.TTL, History: h.History}
	s, err := im.roster.fresh(who, h.Settings, like)
	if err != nil {
		return Info{}, err
	}
	s.Complete, s.Parent, s.Numerics = false, h.Parent, h.Numerics
	if n := len(s.encode()); n > sessionlog.MaxHeadBytes {
		return Info{}, fmt.Errorf("%w: metadata %s: a head of %d bytes, expected at most %d",
			ErrImport, keyHead, n, sessionlog.MaxHeadBytes)
	}
	store := func() error { return im.engine.journal.create(ctx, s, p.start) }
	fill := func() error { return im.fill(ctx, s, p) }
	return im.roster.build(ctx, blueprint{who: who, s: s, store: store, fill: fill})
}

// fill writes what was parsed.
func (im *importing) fill(ctx context.Context, s *liveSession, p *parsed) error {
	e := im.engine
	c := copier{engine: e, to: s, at: p.start}
	for _, r := range p.records {
		if err := c.copy(ctx, r); err != nil {
			return err
		}
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	write := func(w io.Writer) error { return weights.Write(w, p.snapshot) }
	if err := e.journal.writeSnapshotLocked(ctx, s, c.at, write); err != nil {
		return err
	}
	if err := e.foundLocked(ctx, s); err != nil {
		return err
	}
	return e.settleIn(ctx, s)
}

// parse checks everything that can be checked without computing the session again. What it makes
// draws on the allowance of the file.
func (e *engine) parse(f *weights.File, memory *budget.Allowance) (*parsed, error) {
	if err := checkSeal(f); err != nil {
		return nil, err
	}
	h, err := exportedHead(f.Metadata[keyHead])
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyHead, err)
	}
	if err := h.checkOrigin(); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyHead, err)
	}
	if h.Model.Hash != e.model.Hash() {
		return nil, &ModelError{Have: h.Model.id(), Want: e.model.ID()}
	}
	p := &parsed{head: h, snapshot: &weights.File{Metadata: f.Metadata}}
	delete(f.Metadata, keyHead)
	for _, t := range f.Tensors {
		if !slices.Contains([]string{columnText, columnEnds, columnTimes, columnBits, columnBaseline}, t.Name) {
			p.snapshot.Tensors = append(p.snapshot.Tensors, t)
		}
	}
	if err := h.Settings.Validate(e.model); err != nil {
		return nil, err
	}
	state := e.states.budget.Allow() // it is only looked at
	defer state.Return()
	if err := state.Draw(stream.StateBytes(e.model, h.Settings)); err != nil {
		return nil, memoryError(err)
	}
	st, _, err := stream.Restore(e.model, h.Settings, p.snapshot)
	if err != nil {
		return nil, err
	}
	if err := st.Finite(); err != nil {
		return nil, err
	}
	if ends, ok := f.Tensor(columnEnds); ok {
		records := int64(len(ends.Data) / 8)
		if err := memory.Draw(records * parsedBytes); err != nil {
			return nil, memoryError(err)
		}
	}
	if err := p.readLog(f); err != nil {
		return nil, err
	}
	return p, p.check(st)
}
