package sessionlog

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// Fork implements Store. It writes an entry and a row for each piece of the log, however long the
// log is.
func (f *Folder) Fork(
	ctx context.Context, from, id string, head []byte, c Cut,
) (epoch uint64, err error) {
	if err := checkFork(id, head, c); err != nil {
		return 0, err
	}
	err = f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		if isTaken(tx, id) {
			return fmt.Errorf("sessionlog: session %s: %w", id, ErrExists)
		}
		other, err := find(tx, from)
		if err != nil {
			return err
		}
		if err := marked(tx, from); err != nil {
			return err
		}
		if err := checkCut(tx, from, &other, c); err != nil {
			return err
		}
		kept, err := sharedSnapshots(tx, from, c)
		if err != nil {
			return err
		}
		e := entry{start: c.Start, head: head, pieces: cut(other.parts(from), c.Start, c.End)}
		copies, err := copyTail(tx, id, &e)
		if err != nil {
			return err
		}
		if e.epoch, err = nextEpoch(tx); err != nil {
			return err
		}
		epoch = e.epoch
		return f.putFork(tx, id, e, kept, copies)
	}})
	return epoch, err
}

// putFork enters a session that shares with others.
func (f *Folder) putFork(tx *bbolt.Tx, id string, e entry, kept []Snapshot, copies []keyed) error {
	if _, err := tx.CreateBucketIfNotExists([]byte(shareBucket)); err != nil {
		return err
	}
	f.putEntry(tx, id, e)
	for _, c := range copies {
		f.put(tx, logBucket, c.key, c.value)
	}
	for n := range kept {
		key := offsetKey(id, kept[n].Offset)
		f.put(tx, snapshotBucket, key, encodeSnapshot(key, &kept[n]))
	}
	f.reshare(tx, nil, e.shares(id, kept))
	return nil
}

// checkCut tells whether a fork can be cut off a log so.
func checkCut(tx *bbolt.Tx, from string, e *entry, c Cut) error {
	end, err := logEnd(tx, from, *e)
	if err != nil {
		return err
	}
	for _, at := range []int64{c.Start, c.End} {
		if at < e.start || at > end {
			return &RangeError{Session: from, Offset: at, Start: e.start, End: end}
		}
		first := offsetKey(e.partAt(from, at).owner, at)
		if at != end && tx.Bucket([]byte(logBucket)).Get(first) == nil {
			return withinRecord(from, at)
		}
	}
	return nil
}

// sharedSnapshots gives the entries of the snapshots that a fork takes over.
func sharedSnapshots(tx *bbolt.Tx, from string, c Cut) ([]Snapshot, error) {
	kept, err := snapshots(tx, from)
	kept = slices.DeleteFunc(kept, func(s Snapshot) bool {
		return s.Offset < c.Start || s.Offset > c.End
	})
	for n := range kept {
		kept[n].owner = kept[n].ownedBy(from)
	}
	return kept, err
}

// copyTail bounds how many pieces a chain has: forks of forks of forks, each fed a little, would
// have entries that grow and grow. Beyond the bound the fork gets the last pieces as records of its
// own, at most half of the text: mostly it is the little that was fed last. So a chain has piecesMax
// pieces, and one more for every time that the text has doubled.
func copyTail(tx *bbolt.Tx, id string, e *entry) (copies []keyed, err error) {
	if len(e.pieces) <= piecesMax {
		return nil, nil
	}
	parts := e.parts(id)[:len(e.pieces)]
	middle, n := e.start+(e.own()-e.start)/2, piecesMax/2
	for n < len(parts) && parts[n].from < middle {
		n++
	}
	for _, p := range parts[n:] {
		if copies, err = copyRecords(tx, copies, p, id); err != nil {
			return nil, err
		}
	}
	e.pieces = e.pieces[:n]
	return copies, nil
}

// copyRecords appends the records of a part, as they stand under another id.
func copyRecords(tx *bbolt.Tx, copies []keyed, p part, id string) ([]keyed, error) {
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, value := c.Seek(offsetKey(p.owner, p.from))
	for ; bytes.HasPrefix(key, sessionPrefix(p.owner)); key, value = c.Next() {
		_, at, err := splitKey(key)
		if err == nil && at >= p.to {
			break
		}
		r, err := decodeRecord(key, value)
		if err != nil {
			return nil, corruptRecord(p.owner, at, err)
		}
		to := offsetKey(id, at)
		copies = append(copies, keyed{to, encodeRecord(to, &r)})
	}
	return copies, nil
}
