package watch

import (
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

// reportEvery is how often a position records which lines were reported, if that is not urgent.
const reportEvery = time.Second

// knownMax is how many later places in a file a position keeps besides the beginning of its text.
// They save reading when the session's place is looked for.
const knownMax = 2

// keeper keeps the position of a file that a session is fed from.
type keeper struct {
	file     string // file of the position
	position Position
	next     int64     // the session's offset after all announced text
	number   int       // the Follower's number of the last part's file; 0: none in this run
	known    int       // parts after the first of that file
	written  time.Time // when the position was written
	stale    bool      // more was reported since
}

// announce records a piece that is about to be sent, unless the position covers it already. The
// session has all of the text before it.
func (k *keeper) announce(piece follow.Piece) error {
	p, from := &k.position, k.next-piece.Skip
	k.next += int64(len(piece.Text))
	n, closing := len(p.Parts), piece.From == piece.To
	if !closing && n > 0 && k.number == piece.File {
		if k.next <= p.Until {
			p.Parts[n-1].Mark = piece.Mark
			return nil
		}
		if k.known++; k.known > knownMax { // the part before has its text, too
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

// add adds a part. It replaces parts from the same offset on, of which nothing was sent.
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

// reported records that all lines up to an offset of the session have been reported: at once if it
// is urgent, else when it is time.
func (k *keeper) reported(offset int64, matters bool) error {
	k.position.Reported = max(k.position.Reported, offset)
	k.stale = true
	if len(k.position.Parts) == 0 || !matters && time.Since(k.written) < reportEvery {
		return nil
	}
	return k.write(k.position.Until)
}

// idle records what was reported, when nothing has arrived for some time.
func (k *keeper) idle() error {
	if !k.stale || len(k.position.Parts) == 0 {
		return nil
	}
	return k.write(k.position.Until)
}

// end records the session's offset when the watch ends normally.
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
