package sessionlog

import (
	"bytes"
	"math"

	"go.etcd.io/bbolt"
)

// What is in this file runs within a transaction, and looks for keys forwards only: on the way back
// bbolt's cursors stop at pages that the same transaction has emptied.

// isTaken tells whether something stands under an id: a session, what a deleted one has left to its
// forks, or records of a deleted one that are not swept yet.
func isTaken(tx *bbolt.Tx, id string) bool {
	if tx.Bucket([]byte(sessionBucket)).Get([]byte(id)) != nil {
		return true
	}
	return hasPrefix(tx.Bucket([]byte(shareBucket)), sessionPrefix(id)) ||
		hasPrefix(tx.Bucket([]byte(logBucket)), sessionPrefix(id))
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

// expunge removes a session, and releases the records that it has referred to. It gives the names
// of the files of snapshots that nobody else refers to, which are to follow.
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
			f.release(part{s.owner, s.extent})
		}
	}
	f.release(part{id, extent{0, math.MaxInt64}})
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
