package sessionlog

import (
	"bytes"
	"io"
	"maps"
	"sync"
	"sync/atomic"

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

// Usage is what a data folder takes on the disk, in bytes.
type Usage struct {
	Database  int64 // pages of lmserve.db that are in use
	Free      int64 // pages between those, which later writes use before the file grows
	Snapshots int64 // the files that lmserve.db refers to
	Temporary int64 // files of snapshots and backups that are being made

	// Left is what is left of the file system that the folder is on, which has All. 0 of 0 is not
	// known.
	Left, All int64
}

// A session is charged for every key that it has in lmserve.db with the key's value, and for every
// snapshot file.
const (
	// KeyCharge is charged for a key beside the bytes of the key and its value. A page says in 16
	// bytes where the two are; the rest is a key's share of what stays empty of the pages. With it,
	// the pages in use are 0.8 to 1.3 times the charges where records are small, and never more
	// than twice, where three records or so fill a page.
	KeyCharge = 64
	// fileBlockBytes is what the length of a snapshot file is rounded up to.
	fileBlockBytes = 4096
)

// RecordCharge is what a record with a text of so many bytes is charged, at most.
func RecordCharge(id string, text int) int64 {
	const value = recordBytesMin + 8 + crcBytes
	return int64(len(offsetKey(id, 0))+value+text) + KeyCharge
}

// chargeOf is what a key with its value is charged, and how much of that is for a file.
func chargeOf(bucket string, key, value []byte) (id string, all, file int64) {
	switch bucket {
	case sessionBucket:
		id = string(key)
	case logBucket, snapshotBucket:
		session, at, err := splitKey(key)
		if err != nil {
			return "", 0, 0 // damage, which belongs to nobody
		}
		if s, err := decodeSnapshot(key, value, at); bucket == snapshotBucket && err == nil {
			file = (s.Bytes + fileBlockBytes - 1) / fileBlockBytes * fileBlockBytes
		}
		id = session
	default:
		return "", 0, 0
	}
	return id, int64(len(key)+len(value)) + KeyCharge + file, file
}

// usage is the account of a folder. It follows the transactions of the committer: what a
// transaction changes counts when it is committed.
type usage struct {
	temporary atomic.Int64

	// The committer's, of the transaction under way.
	changes     map[string]int64
	filesChange int64

	mu      sync.Mutex
	charges map[string]int64 // by session
	sum     Usage            // without Temporary
	charged func(id string, bytes int64)
}

// reset begins to count anew.
func (u *usage) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.charges, u.sum = map[string]int64{}, Usage{}
}

// count adds what a database holds at opening.
func (u *usage) count(bucket string, key, value []byte) {
	id, n, file := chargeOf(bucket, key, value)
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > 0 {
		u.charges[id] += n
		u.sum.Snapshots += file
	}
}

// begin begins a transaction.
func (u *usage) begin() { u.changes, u.filesChange = map[string]int64{}, 0 }

// change notes that the transaction under way adds a key with its value (sign 1), or drops it (-1).
func (u *usage) change(sign int64, bucket string, key, value []byte) {
	if id, n, file := chargeOf(bucket, key, value); n > 0 {
		u.changes[id] += sign * n
		u.filesChange += sign * file
	}
}

// commit makes the changes of a transaction count and tells them.
func (u *usage) commit() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum.Snapshots += u.filesChange
	for id, n := range u.changes {
		if n == 0 {
			continue
		}
		now := u.charges[id] + n
		u.charges[id] = now
		if now == 0 {
			delete(u.charges, id)
		}
		if u.charged != nil {
			u.charged(id, now)
		}
	}
}

// pages notes how many pages of a database there are, and how many of them are free.
func (u *usage) pages(all, free int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum.Database, u.sum.Free = (all-free)*pageBytes, free*pageBytes
}

// Meter implements Metered.
func (f *Folder) Meter(charged func(id string, bytes int64)) {
	f.usage.mu.Lock()
	defer f.usage.mu.Unlock()
	f.usage.charged = charged
	for id, n := range maps.All(f.usage.charges) {
		charged(id, n)
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

// temporary counts the bytes of a file that is being made, as long as it is.
type temporary struct {
	sum *atomic.Int64
	w   io.Writer
	n   int64
}

// Write implements io.Writer.
func (t *temporary) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += int64(n)
	t.sum.Add(int64(n))
	return n, err
}

// gone says that the file has become another, or is no more.
func (t *temporary) gone() { t.sum.Add(-t.n) }

// put and drop are put and drop of a bucket, accounted. They are for functions that the committer
// calls.
func (f *Folder) put(tx *bbolt.Tx, bucket string, key, value []byte) {
	b := tx.Bucket([]byte(bucket))
	if old := b.Get(key); old != nil {
		f.usage.change(-1, bucket, key, old)
	}
	f.usage.change(1, bucket, key, value)
	put(b, key, value)
}

func (f *Folder) drop(tx *bbolt.Tx, bucket string, key []byte) {
	b := tx.Bucket([]byte(bucket))
	if old := b.Get(key); old != nil {
		f.usage.change(-1, bucket, bytes.Clone(key), old)
	}
	drop(b, key)
}
