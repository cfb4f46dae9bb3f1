package watch

import (
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

// reportEvery is the minimum time between a write of a position and a write for reported lines that
// were not shown to the user. After a shown line, the position is written at once.
const reportEvery = time.Second

// knownMax limits the parts of a position that belong to one file; the file's first part does not
// count. With more parts, a restart would have to read less text, but the position would be larger.
const knownMax = 2

// keeper keeps the position of the stream from which a session is fed. It writes the position to a
// file before it sends the text. So the position may include text that the session has not
// received.
type keeper struct {
	file     string
	position Position
	next     int64 // the session's offset after all announced pieces
	number   int   // Piece.File of the last part; 0 if this run has added no part
	known    int   // the number of parts of the last file, without its first part
	written  time.Time
	stale    bool
}

// announce adds a piece of text to the position, and writes the position to its file. It does not
// write if the position already covers the piece. The caller announces all pieces in order, each
// before it is sent.
func (k *keeper) announce(piece follow.Piece) error {
	p, from := &k.position, k.next-piece.Skip
	k.next += int64(len(piece.Text))
	n, closing := len(p.Parts), piece.From == piece.To
	if !closing && n > 0 && k.number == piece.File {
		if k.next <= p.Until {
			p.Parts[n-1].Mark = piece.Mark
			return nil
		}
		// There are too many parts, so the file's second part is dropped. The file's first part
		// then also covers the text of the dropped part.
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

// add appends a part to the position. It first removes all parts that begin at the new part's
// offset or later, because their text was never sent.
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

// reported records that all lines before an offset of the session have been reported. It writes the
// position if the parameter matters is true, or if the last write is at least reportEvery ago.
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

// end writes the position when the watch ends normally. No text beyond the session's offset has
// then been sent.
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
