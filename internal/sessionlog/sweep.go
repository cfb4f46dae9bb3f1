package sessionlog

import (
	"bytes"
	"cmp"
	"math"

	"go.etcd.io/bbolt"
)

// A deletion or a trimming is a short commit, which takes away what refers to records. Records that
// nobody refers to any more are leftovers: no session reads them. They are swept in commits of
// their own and with those of others, a bounded part in each, so that neither the memory of a
// commit nor the time that others wait for it grows with the log. Leftovers of a process that was
// killed are swept when the folder is opened.

// sweepBytesMax is how much of the log one commit sweeps, by what it is charged. The commit takes
// about four times as much memory.
const sweepBytesMax = 1 << 20

// sweep is what a folder has to sweep. It is the committer's.
type sweep struct {
	released []part   // by the transaction under way
	parts    []part   // of logs in which there may be leftovers
	stuck    bool     // the last commit has failed; the next one that is asked for tries again
	waiting  []*write // deletions that are answered when all is swept, and its pages erased
}

// release says that the transaction under way has ended a reference to a part of a log. What others
// refer to of the part is no leftover, and stays.
func (f *Folder) release(p part) { f.sweep.released = append(f.sweep.released, p) }

// toSweep gives what the transaction under way can sweep. What it has released itself comes first:
// mostly that is little, and then nothing of it outlasts the transaction.
func (s *sweep) toSweep() (parts []part) {
	return append(append(parts, s.released...), s.parts...)
}

// goesOn tells whether there is something to sweep, and nothing keeps the next commit from it.
func (s *sweep) goesOn() bool { return len(s.parts) > 0 && !s.stuck }

// sweepSome removes leftovers from parts of logs, as many as one commit may. It gives the parts in
// which there may be more.
func (f *Folder) sweepSome(tx *bbolt.Tx, parts []part) (rest []part) {
	room := cmp.Or(f.sweepBytes, sweepBytesMax)
	for n, p := range parts {
		for _, s := range unreferenced(tx, p.owner, p.extent) {
			if room -= f.discard(tx, part{p.owner, s}, room); room <= 0 {
				return parts[n:]
			}
		}
	}
	return nil
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

// discard removes the first records of a part of a log, one at least, until so many bytes are gone.
func (f *Folder) discard(tx *bbolt.Tx, p part, most int) (gone int) {
	var doomed [][]byte
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, value := c.Seek(offsetKey(p.owner, p.from))
	for ; gone < most && bytes.HasPrefix(key, sessionPrefix(p.owner)); key, value = c.Next() {
		if p.to != math.MaxInt64 && bytes.Compare(key, offsetKey(p.owner, p.to)) >= 0 {
			break
		}
		gone += len(key) + len(value) + KeyCharge
		doomed = append(doomed, bytes.Clone(key))
	}
	for _, key := range doomed {
		f.drop(tx, logBucket, key)
	}
	return gone
}

// findLeftovers looks under all ids for records that nobody refers to, without reading the records.
func findLeftovers(tx *bbolt.Tx) (parts []part) {
	c := tx.Bucket([]byte(logBucket)).Cursor()
	for key, _ := c.First(); key != nil; {
		id, _, err := splitKey(key)
		if err != nil { // the key of a damaged record
			key, _ = c.Next()
			continue
		}
		for _, s := range unreferenced(tx, id, extent{0, math.MaxInt64}) {
			first, _ := c.Seek(offsetKey(id, s.from))
			if !bytes.HasPrefix(first, sessionPrefix(id)) {
				break
			}
			if s.to == math.MaxInt64 || bytes.Compare(first, offsetKey(id, s.to)) < 0 {
				parts = append(parts, part{id, s})
			}
		}
		key, _ = c.Seek([]byte(id + "\x01")) // past the last
	}
	return parts
}
