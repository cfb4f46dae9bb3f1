package sessionlog

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// Metered is a Store that accounts what its sessions take on the disk.
type Metered interface {
	// Meter has charged told what every session is charged for, in bytes, and from then on of every
	// change, before the call that has made the change returns; 0 means that the session is gone.
	// It replaces who was told before. charged must return soon and must not call the store.
	Meter(charged func(id string, bytes int64))
	// Usage tells what the store takes in all, and what is left.
	Usage() Usage
}

var _ Metered = (*Folder)(nil)

// Meter implements Metered.
func (f *Folder) Meter(charged func(id string, bytes int64)) {
	f.usage.mu.Lock()
	defer f.usage.mu.Unlock()
	f.usage.charged = charged
	for id := range f.usage.charges {
		if f.usage.estates.heirs[id] == "" {
			f.usage.tellLocked(id)
		}
	}
}

// Usage implements Metered.
func (f *Folder) Usage() Usage {
	f.usage.mu.Lock()
	sum := f.usage.sum
	f.usage.mu.Unlock()
	sum.Temporary = f.usage.temporary.Load()
	if left, all, err := f.files.Space(f.dir); err == nil {
		sum.Left, sum.All = left, all
	}
	return sum
}

// countPages asks bbolt how many pages there are, and how many of them are free.
func (f *Folder) countPages() error {
	return safely(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			stats := f.db.Stats()
			f.usage.pages(tx.Size()/pageBytes, int64(stats.FreePageN+stats.PendingPageN))
			return nil
		})
	})
}

// put and drop are put and drop of a bucket, accounted. They are for functions that the committer
// calls.
func (f *Folder) put(tx *bbolt.Tx, bucket string, key, value []byte) {
	b := tx.Bucket([]byte(bucket))
	old := b.Get(key)
	if old != nil {
		f.usage.change(-1, bucket, key, old)
	} else {
		f.usage.touch(bucket, key)
	}
	f.usage.change(1, bucket, key, value)
	put(b, key, value)
}

// putEntry writes a session's entry.
func (f *Folder) putEntry(tx *bbolt.Tx, id string, e entry) {
	f.put(tx, sessionBucket, []byte(id), encodeEntry(id, e))
}

func (f *Folder) drop(tx *bbolt.Tx, bucket string, key []byte) {
	b := tx.Bucket([]byte(bucket))
	if old := b.Get(key); old != nil {
		f.usage.change(-1, bucket, bytes.Clone(key), old)
	}
	f.usage.touch(bucket, key)
	drop(b, key)
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
