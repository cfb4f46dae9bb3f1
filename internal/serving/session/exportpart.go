package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Part describes the export of a damaged session. The export contains the text up to the last good
// record, and the state after this text.
type Part struct {
	Start, End int64 // offsets at which the exported text starts and ends
	// Known is an offset that the session's text is known to have reached. The text from End to
	// Known is lost, and perhaps later text.
	Known int64
	Err   error // why later text cannot be exported; nil for a whole session
}

func (p Part) String() string {
	return fmt.Sprintf("the file contains bytes %d to %d of the session's text, which ended at "+
		"offset %d or later; later text is lost: %v", p.Start, p.End, p.Known, p.Err)
}

// partMaker finds the part of a damaged session that can be exported, and computes the state after
// this part. It does not claim the session, write to the store, or use the session's stream in
// memory.
type partMaker struct {
	models    models
	store     storage.Store
	scheduler *scheduler.Scheduler
	goesOn    func() error // returns an error if the export should stop
	report    func(error)
	// weights reserves memory for a state of a model, and returns the model with its weights.
	weights func(of *servedModel, bytes int64) (*model.Model, error)
}

// find returns the content and the description of the export. Part.Err is set if the session is
// damaged.
func (m *partMaker) find(ctx context.Context, id string) (*exported, Part, error) {
	found, err := m.store.Get(ctx, id)
	if err != nil {
		return nil, Part{}, storeError("reading session "+id, err)
	}
	h, err := decodeHead(id, found.Head)
	if err != nil {
		return nil, Part{}, notEvenPart(id, err)
	}
	served := m.models.withHash(h.Model.Hash)
	if served == nil {
		err := &ModelError{Have: h.Model.id(), Want: m.models.names()}
		return nil, Part{}, &UnusableError{ID: id, Err: err}
	}
	p, err := m.reach(ctx, &h, found)
	if err != nil {
		return nil, Part{}, err
	}
	h.cutTo(p.End)
	weights, err := m.weights(served, h.stateBytes(served.Model))
	if err != nil {
		return nil, Part{}, err
	}
	st, err := m.state(ctx, &h, p, weights)
	if err != nil {
		return nil, Part{}, err
	}
	return &exported{h, p.Start, partStore{m.store, p}, st}, p, nil
}

// notEvenPart returns the error for a session from which nothing can be exported.
func notEvenPart(id string, why error) error {
	return &UnusableError{ID: id, Err: fmt.Errorf("no part of the session can be exported: %w; "+
		"try 'lmserve sessions rescue' on the data folder", why)}
}

// reach finds the end of the readable text. It reads the records in order, and stops before a
// record that is damaged or whose totals an import would refuse.
func (m *partMaker) reach(
	ctx context.Context, h *head, found storage.Session,
) (p Part, err error) {
	p = Part{Start: found.Start, End: found.Start, Known: found.End, Err: found.Err}
	last, stopped := storage.Record{}, errors.New("the record does not begin at the end of the "+
		"previous record")
	err = m.store.Read(ctx, h.ID, found.Start, func(at int64, r storage.Record) error {
		if wrong := h.checkRecord(last, at, r); wrong != nil {
			p.Err = fmt.Errorf("session: session %s, record at offset %d %w", h.ID, at, wrong)
			return stopped
		}
		p.End, last = at+int64(len(r.Text)), r
		last.Text = nil
		return m.goesOn()
	})
	switch {
	case errors.Is(err, stopped):
	case errors.Is(err, storage.ErrCorrupt):
		p.Err = err
	case err != nil:
		return p, storeError("reading the log of session "+h.ID, err)
	}
	if p.End == p.Start && p.Err != nil {
		return p, notEvenPart(h.ID, fmt.Errorf("no text of the session can be read: %w", p.Err))
	}
	return p, nil
}

// cutTo changes the head to its value when the session's text ended at offset end.
func (h *head) cutTo(end int64) {
	h.cutAt(end)
	if h.Parent != nil && h.Parent.Offset > end { // the part ends before the offset of the fork
		h.Parent = &Parent{ID: h.Parent.ID, Offset: end}
	}
}

// state computes the state at the end of the part. If the computation uses another arithmetic than
// the session used at this offset, state records that in the head.
func (m *partMaker) state(
	ctx context.Context, h *head, p Part, of *model.Model,
) (*stream.Stream, error) {
	within := partStore{m.store, p}
	r, err := restore(ctx, &restorable{
		head: h, model: of, snapshots: within, log: within, end: progress{offset: p.End,
			blind: true},
		scheduler: m.scheduler, job: scheduler.Job{
			Key: h.Owner, Session: h.ID, Model: of, Chunk: h.Settings.Chunk,
		},
		more:     func(*restoration) error { return m.goesOn() },
		replayed: func(int64) {}, logError: m.report,
	}, nil)
	if errors.Is(err, storage.ErrRange) {
		return nil, notEvenPart(h.ID, errors.Join(errors.Unwrap(err), p.Err))
	}
	if err != nil {
		return nil, err
	}
	if r.changed != nil {
		*h = *r.changed
	}
	return r.stream, nil
}

// partStore is a store that contains only a part of a session: the whole records from part.Start to
// part.End.
type partStore struct {
	storage.Store
	part Part
}

func (s partStore) Snapshots(ctx context.Context, id string) ([]storage.Snapshot, error) {
	all, err := s.Store.Snapshots(ctx, id)
	return slices.DeleteFunc(all, func(k storage.Snapshot) bool {
		return k.Offset < s.part.Start || k.Offset > s.part.End
	}), err
}

func (s partStore) Read(
	ctx context.Context, id string, from int64, visit func(int64, storage.Record) error,
) error {
	if from >= s.part.End {
		return nil
	}
	err := s.Store.Read(ctx, id, from, func(at int64, r storage.Record) error {
		err := visit(at, r)
		// stop, because later records may be damaged
		if err == nil && at+int64(len(r.Text)) >= s.part.End {
			err = errFound
		}
		return err
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// exportPart writes the readable part of a damaged session to archive. Before it writes, it calls
// the function `part` with a description of this part.
func (e *engine) exportPart(
	ctx context.Context, s *session, archive io.Writer, part func(Part),
) error {
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	state := e.budget.OpenOn(s.model.base(), nil)
	defer state.Close()
	m := &partMaker{
		models: e.models, store: e.store, scheduler: e.scheduler, report: e.logError,
		goesOn: func() error { return cmp.Or(s.alive(), e.life.Check()) },
		weights: func(of *servedModel, bytes int64) (*model.Model, error) {
			return reserveState(ctx, state, of, bytes)
		},
	}
	x, p, err := m.find(ctx, s.ID)
	if err != nil {
		return err
	}
	if p.Err != nil {
		part(p)
	}
	return e.packs(ctx, func() error { return x.write(ctx, archive) })
}

// touched reports whether an export failed because the session is damaged. Then a part of the
// session may still be exported.
func touched(err error) bool {
	var unusable *UnusableError
	return errors.As(err, &unusable) && unusable.Damage() != nil
}
