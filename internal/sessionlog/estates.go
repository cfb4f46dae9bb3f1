package sessionlog

import (
	"bytes"
	"slices"

	"go.etcd.io/bbolt"
)

// estates says who is charged for what deleted sessions have left to forks. One fork is the heir:
// of those that reach furthest into the log, the one whose id is the first, which is the oldest
// where ids are in the order of time. When the heir goes there is another.
type estates struct {
	heirs map[string]string   // by the id of the deleted session
	left  map[string][]string // by the id of the heir
}

func newEstates() estates {
	return estates{heirs: map[string]string{}, left: map[string][]string{}}
}

// give makes a fork the heir of a deleted session; "": nothing is left of it, or it lives.
func (e *estates) give(id, heir string) {
	if old := e.heirs[id]; old != "" {
		rest := slices.DeleteFunc(e.left[old], func(left string) bool { return left == id })
		if e.left[old] = rest; len(rest) == 0 {
			delete(e.left, old)
		}
	}
	delete(e.heirs, id)
	if heir != "" {
		e.heirs[id] = heir
		e.left[heir] = append(e.left[heir], id)
	}
}

// touch notes that the transaction under way may change who is the heir of a session: it comes or
// goes, or somebody shares more or less of it.
func (u *usage) touch(bucket string, key []byte) {
	switch bucket {
	case sessionBucket:
		u.heirs[string(key)] = ""
	case shareBucket:
		if n := bytes.IndexByte(key, 0); n >= 0 {
			u.heirs[string(key[:n])] = ""
		}
	}
}

// findHeirs finds the heirs of the sessions that a transaction has touched, when it is complete.
func (f *Folder) findHeirs(tx *bbolt.Tx) {
	for id := range f.usage.heirs {
		f.usage.heirs[id] = heir(tx, id)
	}
}

// heir is who is charged for what stands under the id of a deleted session; "" if the session lives,
// or has left nothing.
func heir(tx *bbolt.Tx, id string) string {
	rows := tx.Bucket([]byte(shareBucket))
	if rows == nil || tx.Bucket([]byte(sessionBucket)).Get([]byte(id)) != nil {
		return ""
	}
	key, value := rows.Cursor().Seek(sessionPrefix(id))
	if !bytes.HasPrefix(key, sessionPrefix(id)) {
		return ""
	}
	row, err := decodeShare(key, value)
	if err != nil {
		return ""
	}
	return row.child
}

// countEstates adds to the account, at opening, what forks share of deleted sessions, and the files
// of snapshots that only forks have.
func (f *Folder) countEstates() error {
	return f.view(func(tx *bbolt.Tx) error {
		rows := tx.Bucket([]byte(shareBucket))
		if rows == nil {
			return nil
		}
		f.usage.mu.Lock()
		defer f.usage.mu.Unlock()
		owner, file := "", share{}
		c := rows.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			row, err := decodeShare(key, value)
			if err != nil {
				continue
			}
			if row.owner != owner {
				owner = row.owner
				f.usage.estates.give(owner, heir(tx, owner))
			}
			same := file.owner == row.owner && file.from == row.from
			if row.snapshot && !same {
				file = row
				f.usage.countFile(tx, &row)
			}
		}
		return nil
	})
}

// countFile adds the file of a snapshot that is shared, unless the session that has written it has
// it still: then it is counted with that one.
func (u *usage) countFile(tx *bbolt.Tx, row *share) {
	index := tx.Bucket([]byte(snapshotBucket))
	key := offsetKey(row.owner, row.from)
	if s, err := decodeSnapshot(key, index.Get(key), row.from); err == nil && s.owner == "" {
		return
	}
	key = offsetKey(row.child, row.from)
	if s, err := decodeSnapshot(key, index.Get(key), row.from); err == nil {
		u.charges[row.owner] += s.charge()
		u.sum.Snapshots += s.charge()
	}
}
