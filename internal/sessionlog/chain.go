package sessionlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A fork shares with the session that it was made of. Its log is a chain: pieces of other logs, and
// then its own records. A chain is flat: a fork of a fork refers to the logs in which the records
// stand, so that no session needs another one to be read, and each may be deleted. What a deleted
// session leaves to its forks stays under its id.

// piece is a part of a chain that stands under the id of another session. It begins where the one
// before it ends, the first at the start of the log.
type piece struct {
	owner string // id of the session that wrote the records
	end   int64  // the offset at which the piece ends
}

const (
	// piecesMax is how many pieces a new fork has at most: with more, it copies what came last.
	piecesMax     = 64
	pieceBytesMax = 1 + MaxIDBytes + 8
)

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

// share is a row of the bucket of shares: what a session refers to that stands under another's id.
// Rows follow from the sessions' entries and the index of snapshots. They are there so that who
// removes something knows who needs it, without reading all entries.
type share struct {
	owner, child string
	snapshot     bool // else it is a part of the log
	extent            // of the log; of a snapshot, both ends are its offset
}

// shares gives all that a session refers to of others.
func (e *entry) shares(id string, kept []Snapshot) (all []share) {
	for _, p := range e.parts(id)[:len(e.pieces)] {
		all = append(all, share{owner: p.owner, child: id, extent: p.extent})
	}
	for _, s := range kept {
		if s.owner != "" {
			all = append(all, share{s.owner, id, true, extent{s.Offset, s.Offset}})
		}
	}
	return all
}

// The kinds of shares in their keys. Parts of logs stand with the one that ends last first, so that
// who looks for those that reach beyond an offset meets no others.
const (
	logShare      = 'l'
	snapshotShare = 's'
	shareKeyMax   = MaxIDBytes + 1 + 1 + 8 + MaxIDBytes
	shareBytes    = 1 + 8
)

// sharePrefix is what the keys of all shares of one kind in one session's log begin with.
func sharePrefix(owner string, kind byte) []byte { return append(sessionPrefix(owner), kind) }

// fileShares is what the keys of all shares of one snapshot begin with.
func fileShares(owner string, at int64) []byte {
	return binary.BigEndian.AppendUint64(sharePrefix(owner, snapshotShare), uint64(at))
}

func (s *share) key() []byte {
	if s.snapshot {
		return append(fileShares(s.owner, s.from), s.child...)
	}
	b := sharePrefix(s.owner, logShare)
	return append(binary.BigEndian.AppendUint64(b, uint64(math.MaxInt64-s.to)), s.child...)
}

func encodeShare(s *share) (key, value []byte) {
	key = s.key()
	b := binary.LittleEndian.AppendUint64([]byte{formatVersion}, uint64(s.from))
	return key, seal(shareBucket, key, b)
}

func decodeShare(key, value []byte) (s share, err error) {
	b, err := unseal(shareBucket, key, value)
	if err != nil {
		return s, fmt.Errorf("share: %w", err)
	}
	n := bytes.IndexByte(key, 0)
	if n < 0 || len(key) < n+1+1+8+1 || len(b) != shareBytes {
		return s, fmt.Errorf("share under key %.160q of %d bytes, expected the ids of two sessions and %d bytes",
			key, len(b), shareBytes)
	}
	at := int64(binary.BigEndian.Uint64(key[n+2:]))
	s = share{owner: string(key[:n]), child: string(key[n+10:]), snapshot: key[n+1] == snapshotShare}
	s.extent = extent{int64(binary.LittleEndian.Uint64(b[1:])), math.MaxInt64 - at}
	if s.snapshot {
		s.to = at
	}
	known := s.snapshot || key[n+1] == logShare
	ordered := s.from >= 0 && (s.snapshot && s.from == s.to || !s.snapshot && s.from < s.to)
	if !known || !ordered || checkID(s.owner) != nil || checkID(s.child) != nil || s.owner == s.child {
		return s, fmt.Errorf("share of %.80q in the log of %.80q from offset %d to %d, expected two ids and a part",
			s.child, s.owner, s.from, s.to)
	}
	return s, nil
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
