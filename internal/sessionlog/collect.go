package sessionlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

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
	if keySize < 1 || keySize > shareKeyMax || valueSize < 0 || valueSize > valueBytesMax {
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
	if len(value) < bucketBytes || !slices.Contains(allBuckets, name) {
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
