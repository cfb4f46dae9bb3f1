package sessionlog

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
)

// source tells where a value was found, the most believable first. Every value carries a checksum
// over its bucket, its key and itself, so that what was found is what was once written; a value
// from other than the newest tree may have been replaced since.
type source uint8

const (
	newestTree source = iota // the newest meta page leads to it
	brokenPage               // on a page of that tree that is not whole, read element by element
	olderTree                // the other meta page leads to it
	freePage                 // no page leads to it
)

// place is where the bytes of a value are in the file.
type place struct {
	at   int64
	size int32
	from source
	crc  uint32 // the value's own
}

// foundRecord is a record that reads.
type foundRecord struct {
	place
	offset int64
	text   int32 // bytes
}

// foundSnapshot is an entry of a snapshot that reads.
type foundSnapshot struct {
	place
	Snapshot
}

// remains is what was found under an id: a session, or what a deleted session has left to its forks.
type remains struct {
	id        string
	head      *place        // nil: the session's entry was not found
	entry     entry         // without its head
	records   []foundRecord // that stand under the id
	snapshots []foundSnapshot
	breaks    []int // of the records that do not begin where the one before ends
	borrowers []borrower
	damage    []*CorruptError // why it may not be all that was acknowledged

	leftover bool  // it is no session, but just what its borrowers need
	kept     bool  // it is written to a new database as a session
	limit    int64 // where the new database's log ends, at the latest
}

// borrower is a session that refers to a part of another's log.
type borrower struct {
	by *remains
	extent
}

func (r *foundRecord) end() int64 { return r.offset + int64(r.text) }

// badRecord is a value of the log whose checksum is wrong: the value is damaged, or its key is.
type badRecord struct {
	at                 int64
	before, key, after []byte // keys
	err                error
}

// double is a record of which two were found, that differ.
type double struct {
	foundRecord
	of *remains
}

// salvager collects what a damaged database still holds. It keeps positions, not texts.
type salvager struct {
	r     io.ReaderAt
	size  int64
	found map[string]*remains
	epoch uint64

	epochFrom source
	hasEpoch  bool

	sound  []bool         // pages that a tree has used without complaint
	leaves map[string]int // depth of the leaves of a bucket's tree
	lost   []lostPage     // of the newest tree
	whole  []bool         // by lost page: that nothing on it or below it is missing
	// oneMeta says that one meta page cannot be used: the other may be that of the commit before.
	oneMeta bool
	// cutOff says that pages are missing at the file's end: nobody knows what was on them.
	cutOff  bool
	scratch []bool // by page, all false

	walked  map[string]bool // buckets that a broken page led to
	bad     []badRecord
	doubles []double
	before  []byte // the key of the log that was visited last
	report  func(*CorruptError)
}

// isDamaged tells whether the newest tree may not lead to everything.
func (s *salvager) isDamaged() bool { return len(s.lost) > 0 || s.oneMeta }

func (s *salvager) isLost(id uint64) bool {
	return slices.ContainsFunc(s.lost, func(p lostPage) bool { return p.id == id })
}

// wants tells whether a record at an offset would go on from one that was found, or begin the log.
func (x *remains) wants(at int64) bool {
	return at == x.entry.own() || slices.ContainsFunc(x.records, func(r foundRecord) bool {
		return r.offset+int64(r.text) == at
	})
}

func (s *salvager) of(id string) *remains {
	x := s.found[id]
	if x == nil {
		x = &remains{id: id, limit: math.MaxInt64}
		s.found[id] = x
	}
	return x
}

// has tells whether the entry of a snapshot was found.
func (x *remains) has(at int64) bool {
	return slices.ContainsFunc(x.snapshots, func(s foundSnapshot) bool { return s.Offset == at })
}

// touch notes that a session may have lost something.
func (s *salvager) touch(x *remains, at, offset int64, format string, args ...any) {
	x.damage = append(x.damage, &CorruptError{
		File: databaseName, Byte: at, Session: x.id, Offset: offset, What: fmt.Sprintf(format, args...),
	})
}

// mayBeLost tells whether a key may have been on or below a page that is lost.
func (s *salvager) mayBeLost(bucket string, key []byte) bool {
	return s.oneMeta || slices.ContainsFunc(s.lost, func(p lostPage) bool { return p.holds(bucket, key) })
}

// mayHaveLost tells so of a bucket.
func (s *salvager) mayHaveLost(bucket string) bool {
	return s.oneMeta || slices.ContainsFunc(s.lost, func(p lostPage) bool {
		return p.bucket == "" || p.bucket == bucket
	})
}

func (p *lostPage) holds(bucket string, key []byte) bool {
	return (p.bucket == "" || p.bucket == bucket) &&
		bytes.Compare(key, p.first) >= 0 && (p.limit == nil || bytes.Compare(key, p.limit) < 0)
}

// runs gives the parts of a extent that the records under an id cover without a gap.
func (x *remains) runs(s extent) (found []extent) {
	n := sort.Search(len(x.records), func(i int) bool { return x.records[i].offset >= s.from })
	for n < len(x.records) && x.records[n].end() <= s.to {
		next := len(x.records) // the first record of the next run
		if k, _ := slices.BinarySearch(x.breaks, n+1); k < len(x.breaks) {
			next = x.breaks[k]
		}
		last := n + sort.Search(next-n, func(i int) bool { return x.records[n+i].end() > s.to }) - 1
		found = append(found, extent{x.records[n].offset, x.records[last].end()})
		if n = last + 1; n < next {
			break
		}
	}
	return found
}

// findBreaks notes where the records under an id leave gaps.
func (x *remains) findBreaks() {
	x.breaks = nil
	for n := 1; n < len(x.records); n++ {
		if x.records[n].offset != x.records[n-1].end() {
			x.breaks = append(x.breaks, n)
		}
	}
}

// extended appends a extent to others, or joins it to the last one.
func extended(found []extent, s extent) []extent {
	if n := len(found) - 1; n >= 0 && found[n].to == s.from {
		found[n].to = s.to
		return found
	}
	return append(found, s)
}

// covered gives the parts of a session's log that were found, without a gap each.
func (s *salvager) covered(x *remains) (found []extent) {
	for _, p := range x.entry.parts(x.id) {
		owner := s.found[p.owner]
		if owner == nil {
			continue
		}
		for _, r := range owner.runs(p.extent) {
			found = extended(found, r)
		}
	}
	return found
}

// at is the position of what was found of a session's log at an offset; -1: nothing was.
func (s *salvager) at(x *remains, offset int64) int64 {
	owner := s.found[x.entry.partAt(x.id, offset).owner]
	if owner == nil {
		return -1
	}
	n := sort.Search(len(owner.records), func(i int) bool { return owner.records[i].offset >= offset })
	if n == len(owner.records) || owner.records[n].offset != offset {
		return -1
	}
	return owner.records[n].at
}

// isLeftover tells whether what was found under an id is just what a deleted session has left to
// its forks.
func (x *remains) isLeftover() bool {
	if x.head != nil || len(x.snapshots) > 0 || len(x.borrowers) == 0 {
		return false
	}
	var needed []extent
	for _, b := range x.borrowers {
		needed = append(needed, b.extent)
	}
	return len(x.inside(union(needed))) == len(x.records)
}

// inside gives the records that lie in extents, which are in order and apart.
func (x *remains) inside(extents []extent) (found []foundRecord) {
	n := 0
	for _, r := range x.records {
		for n < len(extents) && extents[n].to <= r.offset {
			n++
		}
		if n < len(extents) && r.offset >= extents[n].from && r.end() <= extents[n].to {
			found = append(found, r)
		}
	}
	return found
}

// keep leaves of a session's log what lies between two offsets.
func (x *remains) keep(start, end int64) {
	e := &x.entry
	pieces := cut(e.parts(x.id)[:len(e.pieces)], start, end)
	e.start, e.pieces, x.limit = start, pieces, end
}

// uses gives the parts of logs that a session refers to, its own as well.
func (x *remains) uses() []part {
	if x.head == nil {
		return []part{{x.id, extent{0, math.MaxInt64}}}
	}
	parts := x.entry.parts(x.id)
	parts[len(parts)-1].to = x.limit
	return parts
}

// index gives the snapshots without the places where they were found.
func (x *remains) index() (kept []Snapshot) {
	for _, s := range x.snapshots {
		kept = append(kept, s.Snapshot)
	}
	return kept
}
