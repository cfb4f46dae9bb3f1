package watch

import (
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

// reportEvery is the minimum time between two writes of a position if only lines that were not
// shown have been reported since. After a shown line, the position is written at once.
const reportEvery = time.Second

// knownMax is how many parts of a position one file may have besides its first part. With more
// parts, a restart reads less text again to find its place in the file.
const knownMax = 2

// keeper keeps the position of a stream that a session is fed from, and writes it to a file.
type keeper struct {
	file     string // path of the file with the position
	position Position
	next     int64     // offset of the session after the text of all announced pieces
	number   int       // Piece.File of the last part; 0 if this run has added no part
	known    int       // number of parts of that file besides its first part
	written  time.Time // when the position was written
	stale    bool      // lines were reported after the position was written
}

// announce adds a piece of text to the position before the piece is sent, and writes the position
// to its file. It skips the write if the position already covers the piece. All text before the
// piece must have been announced.
func (k *keeper) announce(piece follow.Piece) error {
	p, from := &k.position, k.next-piece.Skip
	k.next += int64(len(piece.Text))
	n, closing := len(p.Parts), piece.From == piece.To
	if !closing && n > 0 && k.number == piece.File {
		if k.next <= p.Until {
			p.Parts[n-1].Mark = piece.Mark
			return nil
		}
		// Drop the oldest part of this file except the first. The part before it then also covers
		// its text.
		if k.known++; k.known > knownMax {
			p.Parts = slices.Delete(p.Parts, n-knownMax, n-knownMax+1)
		}
	} else {
		k.known = 0
	}
	part := Part{From: from, Start: piece.From, Cursor: piece.Cursor, Mark: piece.Mark}
	if closing {
		part.From, part.Ended = k.next, true
	}
	k.add(part)
	k.number = piece.File
	return k.write(k.next + aheadBytes)
}

// add adds a part. It first removes parts that begin at the same offset or later, because none of
// their text was sent.
func (k *keeper) add(part Part) {
	p := &k.position
	for n := len(p.Parts); n > 0 && p.Parts[n-1].From >= part.From; n-- {
		part.Ended = part.Ended || p.Parts[n-1].From == part.From && p.Parts[n-1].Ended
		p.Parts = p.Parts[:n-1]
	}
	p.Parts = append(p.Parts, part)
	if n := len(p.Parts); n > partsMax {
		p.Parts = append(p.Parts[:0], p.Parts[n-partsMax:]...)
	}
}

// reported records that all lines up to an offset of the session have been reported. It writes the
// position if the parameter matters is set or the last write is at least reportEvery ago.
func (k *keeper) reported(offset int64, matters bool) error {
	k.position.Reported = max(k.position.Reported, offset)
	k.stale = true
	if len(k.position.Parts) == 0 || !matters && time.Since(k.written) < reportEvery {
		return nil
	}
	return k.write(k.position.Until)
}

// idle writes the position if lines were reported since the last write. It is called when no text
// has arrived for some time.
func (k *keeper) idle() error {
	if !k.stale || len(k.position.Parts) == 0 {
		return nil
	}
	return k.write(k.position.Until)
}

// end writes the position with the session's offset as its end, when the watch ends normally.
func (k *keeper) end(offset int64) error {
	if len(k.position.Parts) == 0 {
		return nil
	}
	return k.write(offset)
}

func (k *keeper) write(until int64) error {
	k.position.Until = until
	k.written, k.stale = time.Now(), false
	return k.position.write(k.file)
}
