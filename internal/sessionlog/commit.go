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

// commitAll is the committer: what arrives while it is at work makes the next commit. Leftovers are
// swept with what arrives, or else alone; the committer does not end before they are.
func (f *Folder) commitAll() {
	defer close(f.stopped)
	for range f.queue.wake {
		batch, open := f.queue.batch()
		f.commit(batch)
		for !open && f.sweep.goesOn() {
			f.commit(nil)
		}
		if !open {
			return
		}
		if f.sweep.goesOn() {
			f.queue.signal()
		}
	}
}

// commit carries out a batch and answers every call in it, but for deletions: those wait until all
// is swept.
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
	if len(batch) == 0 && len(f.sweep.parts) == 0 {
		return
	}
	accepted, err := f.transactWithReserve(batch)
	f.sweep.stuck = err != nil
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
			f.sweep.waiting = append(f.sweep.waiting, w)
		}
	}
	for _, w := range batch {
		if !slices.Contains(f.sweep.waiting, w) {
			close(w.done)
		}
	}
	f.answerDeletions(err)
}

// answerDeletions answers the deletions that wait, once what they have left is swept and erased; or
// with the error of the commit that could not sweep it.
func (f *Folder) answerDeletions(err error) {
	waiting := f.sweep.waiting
	if len(waiting) == 0 || err == nil && len(f.sweep.parts) > 0 {
		return
	}
	f.sweep.waiting = nil
	if err == nil && f.held.postpone(waiting) {
		return
	}
	var l layout
	if err == nil {
		l, err = f.eraseFree()
	} else if f.Err() == nil {
		err = fmt.Errorf("sessionlog: erasing the log: %w", err)
	}
	for _, w := range waiting {
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

// transactWithReserve is transact, but that deletions and sweeping for which the disk has no room
// get the room of the reserve, if there is one. The other writes do not.
func (f *Folder) transactWithReserve(batch []*write) (accepted []*write, err error) {
	accepted, err = f.transact(batch)
	deletions := slices.DeleteFunc(slices.Clone(accepted), func(w *write) bool { return !w.erase })
	removes := len(deletions) > 0 || len(f.sweep.parts) > 0
	if !f.serving || !errors.Is(err, ErrNoSpace) || !removes || !f.useReserve() {
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

// transact makes one transaction of a batch and of a part of what is to be swept. The error is that
// of the accepted writes; those that were refused have their own.
func (f *Folder) transact(batch []*write) (accepted []*write, err error) {
	if err := f.Err(); err != nil {
		return batch, err
	}
	if err := f.inPlace(); err != nil {
		for _, w := range batch {
			w.err = err
		}
		return nil, err // nothing is to be undone in what has the folder's place
	}
	var base uint64
	var unswept []part
	f.usage.begin()
	f.sweep.released = nil
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
		parts := f.sweep.toSweep()
		unswept = f.sweepSome(tx, parts)
		if len(accepted) == 0 && len(f.sweep.parts) == 0 {
			return nil
		}
		for _, p := range parts {
			f.usage.touch(sessionBucket, []byte(p.owner))
		}
		f.findHeirs(tx, unswept)
		return tx.Commit()
	})
	switch {
	case err == nil:
		f.usage.commit()
		f.sweep.parts = unswept
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
