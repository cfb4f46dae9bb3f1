package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Moved is the result of copying one session to another store.
type Moved struct {
	ID, Name string
	Bytes    int64
	There    bool
	Err      error // why the session was not copied
}

// Move copies all sessions from one store to another, with ids, names, text and states. No server
// may use the target meanwhile. If the target already has a session, Move compares both copies. If
// an earlier call left an incomplete copy, Move makes the copy again. In the target, forks do not
// share text with their originals.
//
// Move calls visit with the result for each session. It calls progress with the bytes copied so
// far, and with the bytes of all sessions. Move returns only errors that concern a whole store.
func Move(
	ctx context.Context, from, to storage.Store, visit func(Moved), progress func(done, all int64),
) error {
	m := mover{from: from, to: to, progress: progress, names: map[[2]string]string{}}
	err := storage.Each(ctx, to, func(found storage.Session) error {
		if h, err := decodeHead(found.ID, found.Head); err == nil && h.Complete && h.Name != "" {
			m.names[[2]string{h.Owner, h.Name}] = h.ID
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = storage.Each(ctx, from, func(found storage.Session) error {
		m.all += found.End - found.Start
		return nil
	})
	if err != nil {
		return err
	}
	return storage.Each(ctx, from, func(found storage.Session) error {
		before := m.done
		moved := Moved{ID: found.ID, Bytes: found.End - found.Start, Err: found.Err}
		h, err := decodeHead(found.ID, found.Head)
		switch {
		case moved.Err != nil:
		case err != nil:
			moved.Err = err
		case !h.Complete:
			return nil // The next start of a server deletes this incomplete session.
		default:
			moved.Name = h.Name
			moved.There, moved.Err = m.move(ctx, found, h)
		}
		m.add(before + moved.Bytes - m.done)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		visit(moved)
		return nil
	})
}

type mover struct {
	from, to  storage.Store
	names     map[[2]string]string
	done, all int64
	progress  func(done, all int64)
}

func (m *mover) add(bytes int64) {
	m.done += bytes
	m.progress(m.done, m.all)
}

// move copies a session. If an equal session is already in the target, it copies nothing and
// returns true.
func (m *mover) move(ctx context.Context, found storage.Session, h head) (there bool, err error) {
	if there, err = m.compare(ctx, found); there || err != nil {
		return there, err
	}
	name := [2]string{h.Owner, h.Name}
	if other := m.names[name]; h.Name != "" && other != "" && other != h.ID {
		return false, fmt.Errorf("%w: session %s in the target already has the name "+
			"%q", storage.ErrExists, other,
			h.Name)
	}
	h.Complete = false // marks the copy as incomplete until it has all data
	epoch, err := m.to.Create(ctx, h.ID, h.encode(), found.Start)
	if err != nil {
		return false, err
	}
	if err := m.fill(ctx, found, epoch); err != nil {
		return false, err
	}
	if err := m.to.SetHead(ctx, h.ID, epoch, found.Head); err != nil {
		return false, err
	}
	m.names[name] = h.ID
	return false, nil
}

// compare reports whether the target has an equal session. It deletes an incomplete copy in the
// target.
func (m *mover) compare(ctx context.Context, found storage.Session) (same bool, err error) {
	there, err := m.to.Get(ctx, found.ID)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h, err := decodeHead(there.ID, there.Head)
	switch {
	case err != nil:
		return false, fmt.Errorf("the session in the target: %w", err)
	case !h.Complete:
		return false, m.to.Delete(ctx, there.ID, 0)
	case !bytes.Equal(there.Head, found.Head) || there.Start != found.Start ||
		there.End != found.End:
		return false, fmt.Errorf("%w: the session in the target has different settings or text "+
			"(its text ends at offset %d, the text of the source at %d)",
			storage.ErrExists, there.End, found.End)
	case (there.Last == nil) != (found.Last == nil) ||
		there.Last != nil && there.Last.Bits != found.Last.Bits:
		return false, fmt.Errorf("%w: the session in the target has a different total of bits "+
			"for the same text",
			storage.ErrExists)
	}
	return true, nil
}

func (m *mover) fill(ctx context.Context, found storage.Session, epoch uint64) error {
	err := copyLog(ctx, m.from, found.ID, found.Start,
		func(at int64, records []storage.Record, _, text int) error {
			err := m.to.Append(ctx, found.ID, epoch, at, records...)
			if err == nil {
				m.add(int64(text))
			}
			return err
		})
	if err != nil {
		return err
	}
	kept, err := m.from.Snapshots(ctx, found.ID)
	if err != nil {
		return err
	}
	for _, s := range kept {
		err := m.to.WriteSnapshot(ctx, found.ID, epoch, s.Offset,
			storage.CopySnapshot(ctx, m.from, found.ID, s.Offset))
		if err != nil {
			return fmt.Errorf("the state at offset %d: %w", s.Offset, err)
		}
	}
	return nil
}
