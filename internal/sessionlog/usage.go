package sessionlog

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

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

// RecordCharge is what a record is charged, at most. Text is the bytes of its text, SkippedBytes
// for each line that is not learnt, and WordsBytes where there is an account of words.
func RecordCharge(id string, text int) int64 {
	const value = recordBytesMin + 8 + continuedBytes + lessonBytesMin + crcBytes
	return int64(len(offsetKey(id, 0))+value+text) + KeyCharge
}

// ForkCharge is what a fork is charged beside its head, for what it shares with the session that it
// is made of, so many snapshots among it; more only where that is itself a fork of forks.
func ForkCharge(id string, snapshots int) int64 {
	piece := int64(pieceBytesMax)
	row := int64(shareKeyMax+shareBytes+crcBytes) + KeyCharge
	entry := int64(len(offsetKey(id, 0))+snapshotSize+MaxIDBytes+crcBytes) + KeyCharge
	return 2*(piece+row) + int64(snapshots)*(row+entry)
}

// chargeOf is what a key with its value is charged, and to whom: records to the session under whose
// id they stand, shares to the one that shares.
func chargeOf(bucket string, key, value []byte) (id string, bytes int64) {
	switch bucket {
	case sessionBucket:
		id = string(key)
	case logBucket, snapshotBucket:
		session, _, err := splitKey(key)
		if err != nil {
			return "", 0 // damage, which belongs to nobody
		}
		id = session
	case shareBucket:
		row, err := decodeShare(key, value)
		if err != nil {
			return "", 0
		}
		id = row.child
	default:
		return "", 0
	}
	return id, int64(len(key)+len(value)) + KeyCharge
}

// charge is what the file of a snapshot is charged.
func (s *Snapshot) charge() int64 {
	return (s.Bytes + fileBlockBytes - 1) / fileBlockBytes * fileBlockBytes
}

// usage is the account of a folder. It follows the transactions of the committer: what a
// transaction changes counts when it is committed.
type usage struct {
	temporary atomic.Int64

	// The committer's, of the transaction under way.
	changes     map[string]int64
	filesChange int64
	heirs       map[string]string // of deleted sessions, as they will be; "": nothing is left

	mu      sync.Mutex
	charges map[string]int64 // by the id under which it stands
	estates estates
	sum     Usage // without Temporary
	charged func(id string, bytes int64)
}

// reset begins to count anew.
func (u *usage) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.charges, u.estates, u.sum = map[string]int64{}, newEstates(), Usage{}
}

// count adds what a database holds at opening.
func (u *usage) count(bucket string, key, value []byte) {
	id, n := chargeOf(bucket, key, value)
	if n == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.charges[id] += n
	if bucket != snapshotBucket {
		return
	}
	if s, err := decodeSnapshot(key, value, 0); err == nil && s.owner == "" {
		u.charges[id] += s.charge()
		u.sum.Snapshots += s.charge()
	}
}

// begin begins a transaction.
func (u *usage) begin() {
	u.changes, u.filesChange, u.heirs = map[string]int64{}, 0, map[string]string{}
}

// change notes that the transaction under way adds a key with its value (sign 1), or drops it (-1).
func (u *usage) change(sign int64, bucket string, key, value []byte) {
	if id, n := chargeOf(bucket, key, value); n > 0 {
		u.changes[id] += sign * n
	}
}

// changeFile notes that the transaction under way adds the file of a snapshot that a session has
// written, or drops it.
func (u *usage) changeFile(sign int64, owner string, s *Snapshot) {
	u.changes[owner] += sign * s.charge()
	u.filesChange += sign * s.charge()
}

// commit makes the changes of a transaction count and tells them.
func (u *usage) commit() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum.Snapshots += u.filesChange
	told := map[string]bool{}
	for id, n := range u.changes {
		if u.charges[id] += n; u.charges[id] == 0 {
			delete(u.charges, id)
		}
		told[id], told[u.estates.heirs[id]] = true, true
	}
	for id, heir := range u.heirs {
		told[id], told[u.estates.heirs[id]], told[heir] = true, true, true
		u.estates.give(id, heir)
	}
	delete(told, "")
	for id := range told {
		u.tellLocked(id)
	}
}

// tellLocked tells what a session is charged for: what stands under its id, and what it has
// inherited. A session that is gone is charged for nothing.
func (u *usage) tellLocked(id string) {
	if u.charged == nil {
		return
	}
	u.charged(id, u.chargedLocked(id))
}

func (u *usage) chargedLocked(id string) (bytes int64) {
	if u.estates.heirs[id] != "" {
		return 0
	}
	bytes = u.charges[id]
	for _, left := range u.estates.left[id] {
		bytes += u.charges[left]
	}
	return bytes
}

// pages notes how many pages of a database there are, and how many of them are free.
func (u *usage) pages(all, free int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum.Database, u.sum.Free = (all-free)*pageBytes, free*pageBytes
}

// database tells what the database takes, and nothing of the files beside it.
func (u *usage) database() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Usage{Database: u.sum.Database, Free: u.sum.Free}
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
