package sessionlog

import "fmt"

type checker struct {
	f     *Folder
	visit func(*CorruptError)
	work  *work

	logs      map[string][]run  // by the id that records stand under
	sessions  map[string]*entry // nil: damaged
	shares    map[share]bool
	snapshots []indexEntry
	indexed   map[string]bool // names of snapshot files
	epoch     uint64
	hasEpoch  bool
}

// run is a part of a log without a gap. Where the last record is damaged, nobody knows the end: -1.
type run struct {
	extent
	at int64 // position of the first record
}

type indexEntry struct {
	id string
	Snapshot
}

func (c *checker) found(at int64, id string, offset int64, format string, args ...any) {
	c.visit(&CorruptError{File: databaseName, Byte: at, Session: id, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// value checks one value of lmserve.db; values come in the order of the pages.
func (c *checker) value(bucket string, key, value []byte, at int64) {
	switch bucket {
	case damageBucket:
		c.found(at, string(key), -1, "%s", decodeMark(string(key), value))
	case storeBucket:
		c.storeValue(key, value, at)
	case sessionBucket:
		id := string(key)
		if err := checkID(id); err != nil {
			c.found(at, "", -1, "session: %v", err)
			return
		}
		e, err := decodeEntry(key, value)
		if err != nil {
			c.found(at, id, -1, "session: %v", err)
			c.sessions[id] = nil
			return
		}
		e.head = nil // it is gone when this returns
		c.sessions[id] = &e
	case logBucket:
		id, offset, err := splitKey(key)
		if err != nil {
			c.found(at, "", -1, "record: %v", err)
			return
		}
		c.record(id, offset, key, value, at)
	case shareBucket:
		row, err := decodeShare(key, value)
		if err != nil {
			c.found(at, "", -1, "%v", err)
			return
		}
		c.shares[row] = true
	case snapshotBucket:
		id, offset, err := splitKey(key)
		if err != nil {
			c.found(at, "", -1, "entry of a snapshot: %v", err)
			return
		}
		s, err := decodeSnapshot(key, value, offset)
		c.indexed[snapshotName(s.ownedBy(id), offset)] = true
		if err != nil {
			c.found(at, id, offset, "entry of a snapshot: %v", err)
			return
		}
		c.snapshots = append(c.snapshots, indexEntry{id: id, Snapshot: s})
	}
}

func (c *checker) storeValue(key, value []byte, at int64) {
	if string(key) != epochKey {
		c.found(at, "", -1, "key %.80q in bucket %s, expected only %s", key, storeBucket, epochKey)
		return
	}
	epoch, err := decodeEpoch(value)
	if err != nil {
		c.found(at, "", -1, "the last epoch given out: %v", err)
	}
	c.epoch, c.hasEpoch = epoch, true
}

func (c *checker) record(id string, offset int64, key, value []byte, at int64) {
	r, err := decodeRecord(key, value)
	if err != nil {
		c.found(at, id, offset, "record: %v", err)
	}
	end := offset + int64(len(r.Text))
	if err != nil {
		end = -1
	}
	runs := c.logs[id]
	if n := len(runs) - 1; n >= 0 && (runs[n].to == offset || runs[n].to < 0) {
		runs[n].to = end
		return
	}
	c.logs[id] = append(runs, run{extent{offset, end}, at})
}
