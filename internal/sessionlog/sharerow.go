package sessionlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

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
