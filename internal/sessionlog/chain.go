package sessionlog

import (
	"cmp"
	"math"
	"slices"
)

// A fork shares with the session that it was made of. Its log is a chain: pieces of other logs, and
// then its own records. A chain is flat: a fork of a fork refers to the logs in which the records
// stand, so that no session needs another one to be read, and each may be deleted. What a deleted
// session leaves to its forks stays under its id.

// extent is a part of a log.
type extent struct{ from, to int64 }

// part is a part of a chain.
type part struct {
	owner string
	extent
}

// own is the offset at which the session's own records begin.
func (e *entry) own() int64 {
	if n := len(e.pieces); n > 0 {
		return e.pieces[n-1].end
	}
	return e.start
}

// parts gives the parts of a session's log in order. The last one is the session's own, which ends
// nowhere.
func (e *entry) parts(id string) []part {
	all, from := make([]part, 0, len(e.pieces)+1), e.start
	for _, p := range e.pieces {
		all, from = append(all, part{p.owner, extent{from, p.end}}), p.end
	}
	return append(all, part{id, extent{from, math.MaxInt64}})
}

// partAt gives the part of a session's log in which a record begins at an offset, or may begin.
func (e *entry) partAt(id string, at int64) part {
	parts := e.parts(id)
	for _, p := range parts {
		if at < p.to {
			return p
		}
	}
	return parts[len(parts)-1]
}

// cut leaves of a chain what lies between two offsets.
func cut(parts []part, start, end int64) (pieces []piece) {
	for _, p := range parts {
		if to := min(p.to, end); to > max(p.from, start) {
			pieces = append(pieces, piece{p.owner, to})
		}
	}
	return pieces
}

// union joins extents that touch or overlap, in order.
func union(extents []extent) (joined []extent) {
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	for _, s := range extents {
		if n := len(joined) - 1; n >= 0 && s.from <= joined[n].to {
			joined[n].to = max(joined[n].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// without takes a part out of extents that are in order and apart.
func without(extents []extent, taken extent) (left []extent) {
	for _, s := range extents {
		if s.from < min(s.to, taken.from) {
			left = append(left, extent{s.from, min(s.to, taken.from)})
		}
		if max(s.from, taken.to) < s.to {
			left = append(left, extent{max(s.from, taken.to), s.to})
		}
	}
	return left
}
