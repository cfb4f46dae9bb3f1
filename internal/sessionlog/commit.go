package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// write hands a write to the committer and waits for it. The write may be given up only as long as the
// committer has not taken it.
func (f *Folder) write(ctx context.Context, w *write) error {
	if err := f.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.readOnly {
		return fmt.Errorf("sessionlog: %s: %w", f.dir, ErrReadOnly)
	}
	w.done = make(chan struct{})
	if err := f.queue.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if f.queue.withdraw(w) {
			return ctx.Err()
		}
		<-w.done
	}
	return w.err
}

// commitAll is the committer: what arrives while it is at work makes the next commit.
func (f *Folder) commitAll() {
	defer close(f.stopped)
	for range f.queue.wake {
		batch, open := f.queue.batch()
		if len(batch) > 0 {
			f.commit(batch)
		}
		if !open {
			return
		}
	}
}

// commit carries out a batch and answers every call in it.
func (f *Folder) commit(batch []*write) {
	var looks []*write
	batch = slices.DeleteFunc(batch, func(w *write) bool {
		if w.inspect {
			looks = append(looks, w)
		}
		return w.inspect
	})
	for _, w := range looks {
		if w.err = f.Err(); w.err == nil {
			_, w.err = f.inspect()
		}
		close(w.done)
	}
	if len(batch) == 0 {
		return
	}
	accepted, err := f.transactWithReserve(batch)
	var erasing []*write
	for _, w := range accepted {
		switch {
		case err != nil:
			w.err = err
			// After a failure nobody knows what was written, and opening the folder finds out.
			if w.undo != nil && f.Err() == nil {
				w.undo()
			}
			continue
		case w.then != nil:
			w.err = w.then()
		}
		if w.erase {
			erasing = append(erasing, w)
		}
	}
	for _, w := range batch {
		if !slices.Contains(erasing, w) {
			close(w.done)
		}
	}
	if len(erasing) == 0 || f.held.postpone(erasing) {
		return
	}
	l, err := f.eraseFree()
	for _, w := range erasing {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}
	if err == nil && f.serving {
		f.compactServing(l)
		f.keepReserve()
	}
}

// transactWithReserve is transact, but that deletions for which the disk has no room get the room
// of the reserve, if there is one. The other writes do not.
func (f *Folder) transactWithReserve(batch []*write) (accepted []*write, err error) {
	accepted, err = f.transact(batch)
	deletions := slices.DeleteFunc(slices.Clone(accepted), func(w *write) bool { return !w.erase })
	if !f.serving || !errors.Is(err, ErrNoSpace) || len(deletions) == 0 || !f.useReserve() {
		return accepted, err
	}
	for _, w := range accepted {
		if !w.erase {
			w.err = err
			if w.undo != nil {
				w.undo()
			}
		}
	}
	return f.transact(deletions)
}

// transact makes one transaction of a batch. The error is that of the accepted writes; those that
// were refused have their own.
func (f *Folder) transact(batch []*write) (accepted []*write, err error) {
	if err := f.Err(); err != nil {
		return batch, err
	}
	var base uint64
	f.usage.begin()
	err = safely(func() error {
		tx, err := f.db.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		base = uint64(tx.ID()) - 1
		// Calls that wait at the same time have no order. Those that drop records go last: until
		// the commit, they leave empty pages behind, at which bbolt's cursors stop on the way back.
		slices.SortStableFunc(batch, func(a, b *write) int { return number(a.drops) - number(b.drops) })
		for _, w := range batch {
			if w.err = w.do(tx); w.err == nil {
				accepted = append(accepted, w)
			}
			if err := f.Err(); err != nil {
				return err
			}
		}
		if len(accepted) == 0 {
			return nil
		}
		f.findHeirs(tx)
		return tx.Commit()
	})
	switch {
	case err == nil:
		f.usage.commit()
		if err := f.countPages(); err != nil {
			return batch, f.fail(err)
		}
		return accepted, nil
	case f.Err() != nil:
		return batch, f.Err()
	case f.untouched(err, base):
		return accepted, fmt.Errorf("sessionlog: %s: %w: %w", f.dir, ErrNoSpace, err)
	}
	return batch, f.fail(ofPanic(err))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// untouched tells whether a commit failed because the disk is full, and before anything was written
// that counts: both meta pages are those of the commit before it.
func (f *Folder) untouched(err error, base uint64) bool {
	var path *fs.PathError
	if !noSpace(err) || !errors.As(err, &path) || path.Op != "write" { // a write; a sync leaves unknown what was written
		return false
	}
	m, err := f.inspectMeta()
	return err == nil && m.txid == base
}

// writeThenShred waits for a write, and then shreds the files that the write has retired.
func (f *Folder) writeThenShred(ctx context.Context, w *write, retired *[]string) error {
	err := f.write(ctx, w)
	shredding := f.shredAll(*retired)
	if shredding == nil {
		return err
	}
	return errors.Join(err, shredding)
}
