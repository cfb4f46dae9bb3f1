package sessionlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
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

// remains is what was found of a session.
type remains struct {
	id        string
	head      *place // nil: the session's entry was not found
	entry     entry  // without its head
	records   []foundRecord
	snapshots []foundSnapshot
	damage    []*CorruptError // why it may not be all that was acknowledged
}

// badRecord is a value of the log whose checksum is wrong: the value is damaged, or its key is.
type badRecord struct {
	at                 int64
	before, key, after []byte // keys
	err                error
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

	walked map[string]bool // buckets that a broken page led to
	bad    []badRecord
	before []byte // the key of the log that was visited last
	report func(*CorruptError)
}

// salvage looks through all of a database. Both meta pages are tried, then the pages of the newest
// tree that are not in order are read element by element, then every page that no tree has led to.
// progress is told of the bytes looked at, of all.
func salvage(
	r io.ReaderAt, size int64, report func(*CorruptError), progress func(done, all int64),
) *salvager {
	s := &salvager{
		r: r, size: size, found: map[string]*remains{}, leaves: map[string]int{},
		walked: map[string]bool{}, report: report,
		sound: make([]bool, size/pageBytes), scratch: make([]bool, size/pageBytes),
	}
	metas := s.metas()
	if len(metas) == 0 {
		s.lost = append(s.lost, lostPage{err: fmt.Errorf("neither meta page can be used")})
	}
	s.oneMeta = len(metas) == 1
	for n, m := range metas {
		s.root(m, newestTree+source(n)*olderTree)
	}
	whole := map[uint64]bool{}         // by page: each is read once
	for n := 0; n < len(s.lost); n++ { // more may come
		id := s.lost[n].id
		if _, seen := whole[id]; !seen {
			whole[id] = id >= 2 && s.elements(s.lost[n])
		}
		s.whole = append(s.whole, whole[id])
	}
	tidy := !s.cutOff
	orphans := map[string]bool{}
	for id := uint64(2); s.isDamaged() && id < uint64(len(s.sound)); id++ {
		progress(int64(id)*pageBytes, size)
		if !s.sound[id] && !s.isLost(id) {
			tidy = s.free(id, orphans) && tidy
		}
	}
	progress(size, size)
	for n, page := range s.lost {
		s.whole[n] = s.whole[n] || tidy && s.isBranch(page, orphans)
	}
	s.finish()
	return s
}

// metas gives the meta pages that can be used, the newest first. One that a single flipped bit has
// damaged is mended.
func (s *salvager) metas() (good []meta) {
	readMeta(s.r, s.size, s.report)
	for n := range uint64(2) {
		m, err := oneMeta(s.r, n)
		if err != nil {
			m, err = oneMeta(bytes.NewReader(s.mended(n)), n)
		}
		if err == nil {
			s.cutOff = s.cutOff || m.pages > uint64(s.size/pageBytes)
			m.pages = min(m.pages, uint64(s.size/pageBytes))
			good = append(good, m)
		}
	}
	slices.SortFunc(good, func(a, b meta) int { return cmp.Compare(b.txid, a.txid) })
	return good
}

// mended gives two pages of which one is a meta page that had one bit turned round, if its checksum
// says which.
func (s *salvager) mended(n uint64) []byte {
	pages := make([]byte, 2*pageBytes)
	page := pages[n*pageBytes:][:pageHeaderBytes+metaBytes]
	if _, err := s.r.ReadAt(page, int64(n)*pageBytes); err != nil {
		return nil
	}
	for bit := range len(page) * 8 {
		page[bit/8] ^= 1 << (bit % 8)
		if _, err := oneMeta(bytes.NewReader(pages), n); err == nil {
			return pages
		}
		page[bit/8] ^= 1 << (bit % 8)
	}
	return nil
}

// root collects what one meta page leads to.
func (s *salvager) root(m meta, from source) {
	i := s.walker(m.pages, from)
	i.tree(m.root, 0, "", nil, nil)
	if from != newestTree || len(s.lost) > 0 && s.lost[0].bucket == "" {
		return
	}
	for _, name := range buckets {
		if !slices.Contains(i.buckets, name) {
			s.lost = append(s.lost, lostPage{id: m.root, bucket: name,
				err: fmt.Errorf("bucket %s is missing", name)})
		}
	}
}

// walker walks through trees and collects what they hold.
func (s *salvager) walker(pages uint64, from source) *inspector {
	i := &inspector{
		r: s.r, layout: layout{meta: meta{pages: pages}, size: s.size, used: make([]bool, pages)},
		clean: true, leaves: s.leaves, report: func(*CorruptError) {},
		visit: func(b string, k, v []byte, at int64) { s.value(b, k, v, at, from) },
		sound: func(id, n uint64) {
			for k := id; k < min(id+n, uint64(len(s.sound))); k++ {
				s.sound[k] = true
			}
		},
	}
	if from <= brokenPage {
		i.report, i.lost = s.report, func(p lostPage) { s.lost = append(s.lost, p) }
	}
	return i
}

// elements collects the elements of a leaf that is not in order, one by one, and tells whether all
// of them are good. Where another page's content stands in its place, nothing of it is good.
func (s *salvager) elements(p lostPage) (all bool) {
	page := make([]byte, pageBytes)
	if _, err := s.r.ReadAt(page, int64(p.id)*pageBytes); err != nil {
		return false
	}
	// Two places tell how many elements there are: the first element, which points behind the last,
	// and the page's header. What is no element has no checksum that fits, so the larger is tried.
	first, header := int(native.Uint32(page[pageHeaderBytes+4:]))/elementBytes, int(native.Uint16(page[10:]))
	begin := int64(p.id)*pageBytes + pageHeaderBytes
	most := min(math.MaxUint16, int((s.size-begin)/elementBytes))
	if first < 1 || first > most {
		first = 0
	}
	table := make([]byte, max(first, min(header, most))*elementBytes)
	if _, err := s.r.ReadAt(table, begin); err != nil {
		return false
	}
	all = first > 0
	own := native.Uint64(page) == p.id
	for n := range len(table) / elementBytes {
		good, fits := s.element(p, table[n*elementBytes:], begin+int64(n*elementBytes))
		good = good && (own || fits)
		all = all && (good || n >= first) // a wrong first position makes the first element a bad one
	}
	return all
}

// element collects one element of a leaf, and tells whether it is good, and whether its key is one
// that the page may have.
func (s *salvager) element(p lostPage, b []byte, begin int64) (good, fits bool) {
	_, keySize, valueSize, position := parseElement(b, true)
	if keySize < 1 || keySize > MaxIDBytes+9 || valueSize < 0 || valueSize > valueBytesMax {
		return false, false
	}
	content := make([]byte, keySize+valueSize)
	at := begin + int64(position)
	if _, err := s.r.ReadAt(content, at); err != nil {
		return false, false
	}
	key, value := content[:keySize], content[keySize:]
	at += int64(keySize)
	bucket := bucketOf(key, value)
	if bucket == "" {
		return s.bucket(string(key), value, at), p.bucket == ""
	}
	s.value(bucket, key, value, at, brokenPage)
	return true, p.bucket == bucket && p.holds(bucket, key)
}

// bucket collects one that is named on a page that is not in order.
func (s *salvager) bucket(name string, value []byte, at int64) (all bool) {
	if len(value) < bucketBytes || !slices.Contains(markedBuckets, name) {
		return false
	}
	if len(value) == bucketBytes {
		i := s.walker(uint64(len(s.sound)), brokenPage)
		i.tree(native.Uint64(value), 1, name, nil, nil) // what is lost below it is lost on its own
		s.walked[name] = true
		return true
	}
	elements, _, _, err := parsePage(nil, value[bucketBytes:], 0, at+bucketBytes)
	for _, e := range elements {
		s.value(name, e.key, e.value, e.at, brokenPage)
	}
	return err == nil
}

// valueBytesMax is more than any value has.
const valueBytesMax = MaxTextBytes + recordBytesMin + 8 + crcBytes

// bucketOf finds the bucket that a value's checksum says it is of; "": none.
func bucketOf(key, value []byte) string {
	for _, bucket := range markedBuckets {
		if _, err := unseal(bucket, key, value); err == nil {
			return bucket
		}
	}
	return ""
}

// free collects what is on a page that no tree leads to, and tells whether the page is one that was
// a page of a tree, or empty: then nothing was lost with it.
func (s *salvager) free(id uint64, orphans map[string]bool) (tidy bool) {
	pages := uint64(len(s.sound))
	i := &inspector{r: s.r, layout: layout{meta: meta{pages: pages}, used: s.scratch}}
	elements, leaf, err := i.load(id, 0)
	for k := id; k < pages && s.scratch[k]; k++ {
		s.scratch[k] = false
		s.sound[k] = s.sound[k] || err == nil // those it overflows into are no pages of their own
	}
	if err != nil {
		page := make([]byte, pageBytes)
		_, err := s.r.ReadAt(page, int64(id)*pageBytes)
		return err == nil && len(bytes.Trim(page, "\x00")) == 0
	}
	tidy = true
	for _, e := range elements {
		if !leaf || e.flags == bucketElement {
			break
		}
		bucket := bucketOf(e.key, e.value)
		if bucket == "" {
			tidy = false
			continue
		}
		orphans[bucket] = true
		s.value(bucket, e.key, e.value, e.at, freePage)
	}
	return tidy
}

// isDamaged tells whether the newest tree may not lead to everything.
func (s *salvager) isDamaged() bool { return len(s.lost) > 0 || s.oneMeta }

func (s *salvager) isLost(id uint64) bool {
	return slices.ContainsFunc(s.lost, func(p lostPage) bool { return p.id == id })
}

// isBranch tells whether a lost page was a branch page, or named a bucket that has pages of its
// own: with every other page in order, nothing is lost with it.
func (s *salvager) isBranch(p lostPage, orphans map[string]bool) bool {
	if p.bucket == "" { // the root bucket: its leaf names the buckets
		return (orphans[logBucket] || s.walked[logBucket]) &&
			(orphans[sessionBucket] || s.walked[sessionBucket])
	}
	leaves, known := s.leaves[p.bucket]
	return known && p.depth < leaves || !known && orphans[p.bucket]
}

// value adds a value to what is known of its session. What the newest tree does not lead to counts
// only where that tree has lost a page.
func (s *salvager) value(bucket string, key, value []byte, at int64, from source) {
	if from != newestTree && !s.mayBeLost(bucket, key) {
		return
	}
	p := place{at: at, size: int32(len(value)), from: from}
	if len(value) >= crcBytes {
		p.crc = binary.LittleEndian.Uint32(value[len(value)-crcBytes:])
	}
	switch bucket {
	case storeBucket:
		epoch, err := decodeEpoch(value)
		if err == nil && string(key) == epochKey && (!s.hasEpoch || from < s.epochFrom) {
			s.epoch, s.epochFrom, s.hasEpoch = epoch, from, true
		}
	case damageBucket:
		if checkID(string(key)) == nil {
			s.touch(s.of(string(key)), at, -1, "%s", decodeMark(string(key), value))
		}
	case sessionBucket:
		s.session(key, value, p)
	case logBucket, snapshotBucket:
		if bucket == logBucket && from == newestTree {
			if n := len(s.bad) - 1; n >= 0 && s.bad[n].after == nil {
				s.bad[n].after = bytes.Clone(key)
			}
			defer func() { s.before = append(s.before[:0], key...) }()
		}
		if id, offset, err := splitKey(key); err == nil {
			s.ofSession(bucket, id, offset, key, value, p)
		} else if from == newestTree && bucket == logBucket {
			s.bad = append(s.bad, badRecord{
				at: at, before: bytes.Clone(s.before), key: bytes.Clone(key), err: err,
			})
		} else if from == newestTree {
			s.report(&CorruptError{File: databaseName, Byte: at, Offset: -1, What: err.Error()})
		}
	}
}

func (s *salvager) session(key, value []byte, p place) {
	id := string(key)
	if checkID(id) != nil {
		return
	}
	e, err := decodeEntry(key, value)
	if err != nil {
		if p.from == newestTree {
			s.touch(s.of(id), p.at, -1, "session: %v", err)
		}
		return
	}
	e.head = nil // it is gone when this returns
	x := s.of(id)
	if x.head == nil || p.from < x.head.from ||
		p.from == x.head.from && (e.epoch > x.entry.epoch || e.start > x.entry.start) {
		x.head, x.entry = &p, e
	}
}

func (s *salvager) ofSession(bucket, id string, at int64, key, value []byte, p place) {
	var err error
	if bucket == logBucket {
		var r Record
		if r, err = decodeRecord(key, value); err == nil {
			x := s.of(id)
			x.records = append(x.records, foundRecord{p, at, int32(len(r.Text))})
			return
		}
	} else {
		var kept Snapshot
		if kept, err = decodeSnapshot(key, value, at); err == nil {
			x := s.of(id)
			x.snapshots = append(x.snapshots, foundSnapshot{p, kept})
			return
		}
	}
	switch {
	case p.from == newestTree && bucket == logBucket:
		s.bad = append(s.bad, badRecord{
			at: p.at, before: bytes.Clone(s.before), key: bytes.Clone(key), err: err,
		})
	case p.from == newestTree:
		s.touch(s.of(id), p.at, at, "%s: %v", bucket, err)
	}
}

// judgeBad touches the session of a damaged record: the one that its key names, if a record is
// missing there; else the key is damaged, and every session is touched that it may have been of.
func (s *salvager) judgeBad() {
	for n := range s.bad {
		b := &s.bad[n]
		id, at, err := splitKey(b.key)
		if x := s.found[id]; err == nil && x != nil && x.head != nil && x.wants(at) {
			s.touch(x, b.at, at, "record: %v", b.err)
			continue
		}
		p := lostPage{id: uint64(b.at / pageBytes), bucket: logBucket, first: b.before, limit: b.after,
			err: fmt.Errorf("record under a key that is not its own: %w", b.err)}
		for _, x := range s.found {
			s.judge(x, &p)
		}
	}
}

// wants tells whether a record at an offset would go on from one that was found, or begin the log.
func (x *remains) wants(at int64) bool {
	return at == x.entry.start || slices.ContainsFunc(x.records, func(r foundRecord) bool {
		return r.offset+int64(r.text) == at
	})
}

func (s *salvager) of(id string) *remains {
	x := s.found[id]
	if x == nil {
		x = &remains{id: id}
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

// finish sorts what was found, and decides which sessions the damage touches.
func (s *salvager) finish() {
	for _, x := range s.found {
		s.settle(x)
	}
	s.judgeBad()
	for _, x := range s.found {
		for n := range s.lost {
			if !s.whole[n] {
				s.judge(x, &s.lost[n])
			}
		}
		s.epoch = max(s.epoch, x.entry.epoch)
		if x.head == nil && len(x.damage) == 0 {
			s.touch(x, -1, -1, "records or snapshots of a session that is not there")
		}
	}
	if !s.hasEpoch || s.epochFrom > brokenPage || s.oneMeta { // there may have been later ones
		s.epoch += 1 << 32
	}
}

// settle brings what was found of a session into order, once each: of two, the more believable.
func (s *salvager) settle(x *remains) {
	slices.SortFunc(x.records, func(a, b foundRecord) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.from, b.from))
	})
	x.records = slices.CompactFunc(x.records, func(a, b foundRecord) bool {
		if a.offset == b.offset && a.from == freePage && a.crc != b.crc {
			s.touch(x, b.at, b.offset, "record: there are two of them, and no page leads to either")
		}
		return a.offset == b.offset
	})
	x.records = slices.DeleteFunc(x.records, func(r foundRecord) bool {
		return x.head != nil && r.offset < x.entry.start
	})
	slices.SortFunc(x.snapshots, func(a, b foundSnapshot) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.from, b.from))
	})
	x.snapshots = slices.CompactFunc(x.snapshots, func(a, b foundSnapshot) bool {
		return a.Offset == b.Offset
	})
	if x.head == nil {
		return
	}
	end := x.entry.start
	for _, r := range x.records {
		if r.offset != end {
			s.touch(x, r.at, end, "records: none from here to offset %d", r.offset)
		}
		end = r.offset + int64(r.text)
	}
}

// judge touches a session if records, or its entry, may have been lost with a page. A gap within
// the log is seen without it (settle); what cannot be seen is whether more records followed the
// last one.
func (s *salvager) judge(x *remains, p *lostPage) {
	at := int64(p.id) * pageBytes
	if p.holds(sessionBucket, []byte(x.id)) && (x.head == nil || x.head.from > brokenPage) {
		s.touch(x, at, -1, "page %d, which held the session's entry, cannot be read: %v", p.id, p.err)
	}
	last := int64(0)
	if n := len(x.records); n > 0 {
		last = x.records[n-1].offset
	}
	end := offsetKey(x.id, math.MaxInt64)
	if (p.bucket == "" || p.bucket == logBucket) && bytes.Compare(end, p.first) >= 0 &&
		(p.limit == nil || bytes.Compare(offsetKey(x.id, last), p.limit) < 0) {
		s.touch(x, at, last, "page %d, which may have held its last records, cannot be read: %v",
			p.id, p.err)
	}
}

// read gives the bytes of a value, which are checked again.
func (s *salvager) read(p place) ([]byte, error) {
	value := make([]byte, p.size)
	if _, err := s.r.ReadAt(value, p.at); err != nil {
		return nil, &CorruptError{File: databaseName, Byte: p.at, Offset: -1, What: err.Error()}
	}
	return value, nil
}
