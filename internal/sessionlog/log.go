package sessionlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
)

// Create implements Store.
func (f *Folder) Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64, err error) {
	if err := checkCreate(id, head, start); err != nil {
		return 0, err
	}
	err = f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		if isTaken(tx, id) {
			return fmt.Errorf("sessionlog: session %s: %w", id, ErrExists)
		}
		if epoch, err = nextEpoch(tx); err != nil {
			return err
		}
		f.putEntry(tx, id, entry{epoch: epoch, start: start, head: head})
		return nil
	}})
	return epoch, err
}

// Claim implements Store.
func (f *Folder) Claim(ctx context.Context, id string) (s Session, err error) {
	err = f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := find(tx, id)
		if err != nil {
			return err
		}
		if err := marked(tx, id); err != nil {
			return err
		}
		if s, err = sessionOf(tx, id, e); err != nil {
			return err
		}
		if s.Epoch, err = nextEpoch(tx); err != nil {
			return err
		}
		e.epoch = s.Epoch
		f.putEntry(tx, id, e)
		return nil
	}})
	if err != nil {
		return Session{}, err
	}
	return s, nil
}

// Get implements Store.
func (f *Folder) Get(ctx context.Context, id string) (s Session, err error) {
	if err := ctx.Err(); err != nil {
		return Session{}, err
	}
	err = f.view(func(tx *bbolt.Tx) error {
		e, err := find(tx, id)
		if err == nil {
			s = toldOf(tx, id, e)
		}
		return err
	})
	return s, err
}

// List implements Store.
func (f *Folder) List(ctx context.Context, after string, limit int) (sessions []Session, err error) {
	if limit < 1 {
		return nil, invalid("limit %d, expected 1 or more", limit)
	}
	err = f.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(sessionBucket)).Cursor()
		key, value := c.Seek([]byte(after + "\x00")) // the first after it
		for ; key != nil && len(sessions) < limit; key, value = c.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			sessions = append(sessions, listed(tx, key, value))
		}
		return nil
	})
	return sessions, err
}

func listed(tx *bbolt.Tx, key, value []byte) Session {
	id := string(key)
	e, err := decodeEntry(key, value)
	if err != nil {
		return Session{ID: id, Err: corruptEntry(id, err)}
	}
	return toldOf(tx, id, e)
}

// toldOf tells what can be read of a session. Of one whose last record is damaged, the log ends
// where that record begins.
func toldOf(tx *bbolt.Tx, id string, e entry) Session {
	s, err := sessionOf(tx, id, e)
	if err != nil {
		s = Session{ID: id, Epoch: e.epoch, Head: bytes.Clone(e.head), Start: e.start, End: e.start}
		var damage *CorruptError
		if errors.As(err, &damage) {
			s.End = max(s.End, damage.Offset)
		}
	}
	s.Err = cmp.Or(err, marked(tx, id))
	return s
}

// SetHead implements Store.
func (f *Folder) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := checkHead(head); err != nil {
		return err
	}
	return f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		e.head = head
		f.putEntry(tx, id, e)
		return nil
	}})
}

// Delete implements Store.
func (f *Folder) Delete(ctx context.Context, id string, epoch uint64) error {
	w, retired := &write{drops: true, erase: true}, []string(nil)
	w.do = func(tx *bbolt.Tx) error {
		if _, err := owned(tx, id, epoch); err != nil && (epoch != 0 || errors.Is(err, ErrNotFound)) {
			return err
		}
		files := f.expunge(tx, id)
		w.then = func() (err error) {
			retired, err = f.retire(files)
			return err
		}
		return nil
	}
	// The overwriting of the snapshots is not the committer's: appends wait for the committer.
	return f.writeThenShred(ctx, w, &retired)
}

// Append implements Store.
func (f *Folder) Append(ctx context.Context, id string, epoch uint64, at int64, records ...Record) error {
	if err := checkRecords(at, records); err != nil {
		return err
	}
	return f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		end, err := logEnd(tx, id, e)
		if err != nil {
			return err
		}
		if end != at {
			return &SequenceError{Session: id, Have: end, Want: at}
		}
		log := tx.Bucket([]byte(logBucket))
		log.FillPercent = appendFill
		next := at
		for n := range records {
			key := offsetKey(id, next)
			f.put(tx, logBucket, key, encodeRecord(key, &records[n]))
			next += int64(len(records[n].Text))
		}
		return nil
	}})
}

// Trim implements Store.
func (f *Folder) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	return f.write(ctx, &write{drops: true, do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		newest := e.start
		if entries := keys(tx, snapshotBucket, id); len(entries) > 0 {
			if _, newest, err = splitKey(entries[len(entries)-1]); err != nil {
				return corruptSnapshot(id, -1, err)
			}
		}
		if before < 0 || before > newest {
			return &RangeError{Session: id, Offset: before, Start: 0, End: newest}
		}
		trimmed := e
		if trimmed.start, err = trimTo(tx, id, &e, before); err != nil || trimmed.start == e.start {
			return err
		}
		trimmed.pieces = cut(e.parts(id)[:len(e.pieces)], trimmed.start, math.MaxInt64)
		f.putEntry(tx, id, trimmed)
		f.reshare(tx, e.shares(id, nil), trimmed.shares(id, nil))
		for _, p := range e.parts(id) {
			f.release(tx, p.owner, extent{p.from, min(p.to, trimmed.start)})
		}
		return nil
	}})
}

// trimTo gives the offset at which a log begins once the records are gone that end at or before an
// offset.
func trimTo(tx *bbolt.Tx, id string, e *entry, before int64) (start int64, err error) {
	start = e.start
	log := tx.Bucket([]byte(logBucket))
	for _, p := range e.parts(id) {
		if p.to <= before { // a piece of another log, all of it
			start = p.to
			continue
		}
		c := log.Cursor()
		key, value := c.Seek(offsetKey(p.owner, p.from))
		for ; start < p.to && bytes.HasPrefix(key, sessionPrefix(p.owner)); key, value = c.Next() {
			_, at, err := splitKey(key)
			if err != nil {
				return 0, corruptRecord(id, -1, err)
			}
			r, err := decodeRecord(key, value)
			if err != nil {
				return 0, corruptRecord(id, at, err)
			}
			if at+int64(len(r.Text)) > before {
				return start, nil
			}
			start = at + int64(len(r.Text))
		}
		return start, nil
	}
	return start, nil
}
