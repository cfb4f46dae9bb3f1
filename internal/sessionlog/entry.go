package sessionlog

import (
	"encoding/binary"
	"fmt"
)

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

// entry is a value of the bucket of sessions.
type entry struct {
	epoch  uint64
	start  int64
	pieces []piece // what the session's log begins with, if it is not the session's own
	head   []byte
}

func encodeEntry(id string, e entry) []byte {
	b := make([]byte, 0, entryBytesMin+1+len(e.pieces)*pieceBytesMax+len(e.head)+crcBytes)
	b = binary.LittleEndian.AppendUint64(append(b, formatVersion), e.epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.start))
	if len(e.pieces) > 0 {
		b[0] = sharingVersion
		b = append(b, byte(len(e.pieces)))
		for _, p := range e.pieces {
			b = append(append(b, byte(len(p.owner))), p.owner...)
			b = binary.LittleEndian.AppendUint64(b, uint64(p.end))
		}
	}
	return seal(sessionBucket, []byte(id), append(b, e.head...))
}

// decodeEntry gives an entry whose head is part of value.
func decodeEntry(id, value []byte) (entry, error) {
	b, err := unseal(sessionBucket, id, value)
	if err != nil {
		return entry{}, err
	}
	if len(b) < entryBytesMin {
		return entry{}, fmt.Errorf("session of %d bytes, expected %d or more", len(b), entryBytesMin)
	}
	e := entry{
		epoch: binary.LittleEndian.Uint64(b[1:]), start: int64(binary.LittleEndian.Uint64(b[9:])),
		head: b[entryBytesMin:],
	}
	if e.start < 0 {
		return entry{}, fmt.Errorf("start of the log %d, expected 0 or more", e.start)
	}
	if b[0] == sharingVersion {
		if err := e.decodePieces(string(id)); err != nil {
			return entry{}, err
		}
	}
	return e, nil
}

// decodePieces takes the pieces off what decodeEntry took for the head.
func (e *entry) decodePieces(id string) error {
	b := e.head
	if len(b) < 1 || b[0] == 0 {
		return fmt.Errorf("no pieces of other logs, expected some in version %d", sharingVersion)
	}
	count, end := int(b[0]), e.start
	b = b[1:]
	for n := range count {
		if len(b) < 1 || len(b) < 1+int(b[0])+8 {
			return fmt.Errorf("%d pieces of other logs, expected %d", n, count)
		}
		size := 1 + int(b[0])
		p := piece{string(b[1:size]), int64(binary.LittleEndian.Uint64(b[size:]))}
		if err := checkID(p.owner); err != nil {
			return fmt.Errorf("piece %d of other logs: %w", n, err)
		}
		if p.end <= end || p.owner == id {
			return fmt.Errorf("piece %d, of the log of %s, ends at offset %d, expected more than %d and another log",
				n, p.owner, p.end, end)
		}
		e.pieces, end, b = append(e.pieces, p), p.end, b[size+8:]
	}
	e.head = b
	return nil
}
