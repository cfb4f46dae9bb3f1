package sessionlog

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
)

// finish sorts what was found, and decides which sessions the damage touches.
func (s *salvager) finish() {
	for _, x := range s.found {
		s.settle(x)
	}
	s.borrow()
	for _, x := range s.found {
		if x.head != nil {
			s.findGaps(x)
		}
	}
	s.judgeBad()
	for _, x := range s.found {
		for n := range s.lost {
			if !s.whole[n] {
				s.judge(x, &s.lost[n])
			}
		}
		s.epoch = max(s.epoch, x.entry.epoch)
		if x.head == nil && len(x.damage) == 0 && !x.leftover {
			s.touch(x, -1, -1, "records or snapshots of a session that is not there")
		}
	}
	if !s.hasEpoch || s.epochFrom > brokenPage || s.oneMeta { // there may have been later ones
		s.epoch += 1 << 32
	}
}

// borrow notes who refers to what. Rows of shares are not asked: they follow from the entries.
func (s *salvager) borrow() {
	for _, x := range s.found {
		if x.head == nil {
			continue
		}
		for _, p := range x.entry.parts(x.id)[:len(x.entry.pieces)] {
			if owner := s.found[p.owner]; owner != nil {
				owner.borrowers = append(owner.borrowers, borrower{x, p.extent})
			}
		}
	}
	for _, x := range s.found {
		x.leftover = x.isLeftover()
	}
	for _, d := range s.doubles {
		s.touchUsers(d.of, d.place.at, d.offset, "record: there are two of them, and no page leads to either")
	}
}

// touchUsers touches all sessions whose log has a record that stands under an id.
func (s *salvager) touchUsers(x *remains, at, offset int64, what string) {
	if !x.leftover && offset >= x.entry.own() {
		s.touch(x, at, offset, "%s", what)
	}
	for _, b := range x.borrowers {
		if offset >= b.from && offset < b.to {
			s.touch(b.by, at, offset, "%s", what)
		}
	}
}

// findGaps touches a session whose log has a gap.
func (s *salvager) findGaps(x *remains) {
	end := x.entry.start
	for _, r := range s.covered(x) {
		if r.from != end {
			s.touch(x, s.at(x, r.from), end, "records: none from here to offset %d", r.from)
		}
		end = r.to
	}
	if own := x.entry.own(); end < own {
		s.touch(x, -1, end, "records: none from here to offset %d", own)
	}
}

// judgeBad touches the sessions of a damaged record: those that lack a record where its key says
// that it stands; else the key is damaged, and every session is touched that it may have been of.
func (s *salvager) judgeBad() {
	for n := range s.bad {
		b := &s.bad[n]
		id, at, err := splitKey(b.key)
		if x := s.found[id]; err == nil && x != nil && s.lacks(x, at) {
			if x.head != nil && at >= x.entry.own() {
				s.touch(x, b.at, at, "record: %v", b.err)
			}
			continue
		}
		p := lostPage{id: uint64(b.at / pageBytes), bucket: logBucket, first: b.before, limit: b.after,
			err: fmt.Errorf("record under a key that is not its own: %w", b.err)}
		for _, x := range s.found {
			s.judge(x, &p)
		}
	}
}

// lacks tells whether a record under an id is missing at an offset: the session's own, or one that
// others share, who then have a gap there.
func (s *salvager) lacks(x *remains, at int64) bool {
	if x.head != nil && x.wants(at) {
		return true
	}
	return slices.ContainsFunc(x.borrowers, func(b borrower) bool { return at >= b.from && at < b.to })
}

// settle brings what was found of a session into order, once each: of two, the more believable.
func (s *salvager) settle(x *remains) {
	slices.SortFunc(x.records, func(a, b foundRecord) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.from, b.from))
	})
	x.records = slices.CompactFunc(x.records, func(a, b foundRecord) bool {
		if a.offset == b.offset && a.from == freePage && a.crc != b.crc {
			s.doubles = append(s.doubles, double{b, x})
		}
		return a.offset == b.offset
	})
	x.findBreaks()
	slices.SortFunc(x.snapshots, func(a, b foundSnapshot) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.from, b.from))
	})
	x.snapshots = slices.CompactFunc(x.snapshots, func(a, b foundSnapshot) bool {
		return a.Offset == b.Offset
	})
}

// judge touches a session if records, or its entry, may have been lost with a page. A gap within
// the log is seen without it (settle); what cannot be seen is whether more records followed the
// last one.
func (s *salvager) judge(x *remains, p *lostPage) {
	at := int64(p.id) * pageBytes
	if p.holds(sessionBucket, []byte(x.id)) && (x.head == nil || x.head.from > brokenPage) {
		s.touch(x, at, -1, "page %d, which held the session's entry, cannot be read: %v", p.id, p.err)
	}
	if x.leftover { // who needs a record of it has a gap without it
		return
	}
	last := int64(0)
	if n := len(x.records); n > 0 {
		last = x.records[n-1].offset
	}
	last = max(last, x.entry.own())
	end := offsetKey(x.id, math.MaxInt64)
	if (p.bucket == "" || p.bucket == logBucket) && bytes.Compare(end, p.first) >= 0 &&
		(p.limit == nil || bytes.Compare(offsetKey(x.id, last), p.limit) < 0) {
		s.touch(x, at, last, "page %d, which may have held its last records, cannot be read: %v",
			p.id, p.err)
	}
}
