package sessionlog

import (
	"bytes"
	"math"

	"go.etcd.io/bbolt"
)

// What is in this file runs within a transaction, and looks for keys forwards only: on the way back
// bbolt's cursors stop at pages that the same transaction has emptied.

// isTaken tells whether something stands under an id: a session, or what a deleted one has left to
// its forks.
func isTaken(tx *bbolt.Tx, id string) bool {
	if tx.Bucket([]byte(sessionBucket)).Get([]byte(id)) != nil {
		return true
	}
	return hasPrefix(tx.Bucket([]byte(shareBucket)), sessionPrefix(id))
}

// hasPrefix tells whether a bucket, which may be nil, has a key that begins so.
func hasPrefix(b *bbolt.Bucket, prefix []byte) bool {
	if b == nil {
		return false
	}
	key, _ := b.Cursor().Seek(prefix)
	return bytes.HasPrefix(key, prefix)
}

// reshare replaces the rows of a session.
func (f *Folder) reshare(tx *bbolt.Tx, old, now []share) {
	rows := tx.Bucket([]byte(shareBucket))
	if rows == nil { // there never was a fork
		return
	}
	for n := range old {
		f.drop(tx, shareBucket, old[n].key())
	}
	for n := range now {
		key, value := encodeShare(&now[n])
		f.put(tx, shareBucket, key, value)
	}
}

// release removes the records in a part of a log that nobody refers to any more: neither the
// session of that id nor one that shares with it.
func (f *Folder) release(tx *bbolt.Tx, owner string, s extent) {
	free := unreferenced(tx, owner, s)
	log := tx.Bucket([]byte(logBucket))
	var gone [][]byte
	for _, s := range free {
		c := log.Cursor()
		key, _ := c.Seek(offsetKey(owner, s.from))
		for ; bytes.HasPrefix(key, sessionPrefix(owner)); key, _ = c.Next() {
			if s.to != math.MaxInt64 && bytes.Compare(key, offsetKey(owner, s.to)) >= 0 {
				break
			}
			gone = append(gone, bytes.Clone(key))
		}
	}
	for _, key := range gone {
		f.drop(tx, logBucket, key)
	}
}

// unreferenced gives what of a part of a log nobody refers to. Where an entry or a share cannot be
// read, somebody may refer to anything.
func unreferenced(tx *bbolt.Tx, owner string, s extent) (free []extent) {
	if s.from >= s.to {
		return nil
	}
	free = []extent{s}
	if value := tx.Bucket([]byte(sessionBucket)).Get([]byte(owner)); value != nil {
		e, err := decodeEntry([]byte(owner), value)
		if err != nil {
			return nil
		}
		free = without(free, extent{e.own(), math.MaxInt64})
	}
	rows, prefix := tx.Bucket([]byte(shareBucket)), sharePrefix(owner, logShare)
	if rows == nil {
		return free
	}
	c := rows.Cursor()
	for key, value := c.Seek(prefix); len(free) > 0 && bytes.HasPrefix(key, prefix); key, value = c.Next() {
		row, err := decodeShare(key, value)
		if err != nil {
			return nil
		}
		if row.to <= free[0].from { // so do all that follow, which end earlier
			break
		}
		free = without(free, row.extent)
	}
	return free
}

// forget takes a session's snapshot out of the index. It gives the name of the file, unless somebody
// else needs the file; then "".
func (f *Folder) forget(tx *bbolt.Tx, id string, s *Snapshot) (file string) {
	f.drop(tx, snapshotBucket, offsetKey(id, s.Offset))
	f.reshare(tx, (&entry{}).shares(id, []Snapshot{*s}), nil)
	if isKept(tx, s.ownedBy(id), s.Offset) {
		return ""
	}
	f.usage.changeFile(-1, s.ownedBy(id), s)
	return s.file(id)
}

// isKept tells whether anybody has a snapshot whose file is of a session.
func isKept(tx *bbolt.Tx, owner string, at int64) bool {
	key := offsetKey(owner, at)
	if value := tx.Bucket([]byte(snapshotBucket)).Get(key); value != nil {
		if s, err := decodeSnapshot(key, value, at); err != nil || s.owner == "" {
			return true
		}
	}
	return isShared(tx, owner, at)
}

// isShared tells whether somebody else has a snapshot of a session's.
func isShared(tx *bbolt.Tx, owner string, at int64) bool {
	return hasPrefix(tx.Bucket([]byte(shareBucket)), fileShares(owner, at))
}

// expunge removes a session and all that nobody else refers to. It gives the names of the files of
// snapshots that are to follow.
func (f *Folder) expunge(tx *bbolt.Tx, id string) (files []string) {
	e, kept, whole := remaining(tx, id)
	shared := e.shares(id, kept)
	if !whole {
		shared = sharesOf(tx, id)
	}
	f.drop(tx, sessionBucket, []byte(id))
	if marks := tx.Bucket([]byte(damageBucket)); marks != nil {
		drop(marks, []byte(id))
	}
	f.reshare(tx, shared, nil)
	for _, key := range keys(tx, snapshotBucket, id) {
		f.drop(tx, snapshotBucket, key)
	}
	for n := range kept {
		if s := &kept[n]; !isKept(tx, s.ownedBy(id), s.Offset) {
			files = append(files, s.file(id))
			f.usage.changeFile(-1, s.ownedBy(id), s)
		}
	}
	for _, s := range shared {
		if !s.snapshot {
			f.release(tx, s.owner, s.extent)
		}
	}
	f.release(tx, id, extent{0, math.MaxInt64})
	return files
}

// remaining gives what can be read of a session's entry and of its snapshots, and whether that is
// all. Of a snapshot whose entry cannot be read, the shares tell whose file it is.
func remaining(tx *bbolt.Tx, id string) (e entry, kept []Snapshot, whole bool) {
	e, err := find(tx, id)
	whole = err == nil
	for _, key := range keys(tx, snapshotBucket, id) {
		_, at, err := splitKey(key)
		if err != nil {
			whole = false
			continue
		}
		s, err := decodeSnapshot(key, tx.Bucket([]byte(snapshotBucket)).Get(key), at)
		if err != nil {
			s, whole = Snapshot{Offset: at, owner: sharedFrom(tx, id, at)}, false
		}
		kept = append(kept, s)
	}
	return e, kept, whole
}

// sharesOf looks through all shares for those of a session whose entry does not tell them.
func sharesOf(tx *bbolt.Tx, child string) (found []share) {
	rows := tx.Bucket([]byte(shareBucket))
	if rows == nil {
		return nil
	}
	c := rows.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		if row, err := decodeShare(key, value); err == nil && row.child == child {
			found = append(found, row)
		}
	}
	return found
}

// sharedFrom tells whose file a session's snapshot has; "": the session's own.
func sharedFrom(tx *bbolt.Tx, id string, at int64) (owner string) {
	for _, row := range sharesOf(tx, id) {
		if row.snapshot && row.from == at {
			owner = row.owner
		}
	}
	return owner
}
