package tokenizer

import (
	"errors"
	"fmt"
)

// MaxWordBytes is the length of the longest word that a vocabulary may have. A longer word of a
// text is one unknown word, of whatever length.
const MaxWordBytes = 1024

// heldMost bounds Pending.Word: the end of the longest known word may look like the beginning of
// white space, or be it.
const heldMost = MaxWordBytes + spaceMost - 1

// heldTail is the number of bytes that are kept of a word too long to be known: as many as tell
// whether the next byte ends white space.
const heldTail = spaceMost - 1

// Pending is what a stream keeps of the text behind its last token: the beginning of the next
// token. It is a function of that text alone, not of the pieces in which the text came, and takes
// at most about a kilobyte. The zero value is the beginning of a text; so is all that a tokenizer
// of bytes keeps. It is plain data, and valid if Check says so.
type Pending struct {
	Space int64  // bytes of white space before the word
	Word  []byte // the word so far, or the last bytes of a word too long to be known
	More  int64  // bytes of a word too long to be known that Word no longer has
	Line  bool   // a line has ended, and its token is still to come: there was no room for it
}

// Size is the number of bytes of text that are pending.
func (p *Pending) Size() int64 {
	n := p.Space + p.More + int64(len(p.Word))
	if p.Line {
		n++
	}
	return n
}

// CopyFrom makes p equal to o and shares nothing with it.
func (p *Pending) CopyFrom(o *Pending) {
	word := append(p.Word[:0], o.Word...)
	*p = *o
	p.Word = word
}

// Check reports why no text leaves p behind, so that what was stored can be trusted.
func (p *Pending) Check() error {
	switch {
	case p.Space < 0 || p.More < 0:
		return fmt.Errorf("tokenizer: pending: found %d bytes of white space and %d left out, expected none below 0", p.Space, p.More)
	case p.Line && (p.Space|p.More != 0 || len(p.Word) > 0):
		return errors.New("tokenizer: pending: found text beside the end of a line, expected the end of the line alone")
	case p.More > 0 && (len(p.Word) != heldTail || p.More <= heldMost-heldTail):
		return fmt.Errorf("tokenizer: pending: found %d bytes and %d left out, expected %d of a word of more than %d",
			len(p.Word), p.More, heldTail, heldMost)
	case len(p.Word) > heldMost:
		return fmt.Errorf("tokenizer: pending: found a word of %d bytes, expected at most %d",
			len(p.Word), heldMost)
	case indexSpace(p.Word) >= 0:
		return fmt.Errorf("tokenizer: pending: found white space at byte %d of a word, expected none",
			indexSpace(p.Word))
	}
	return nil
}

// indexSpace is the place of the byte that ends the first white space of a text, -1 without any.
func indexSpace(text []byte) int {
	for i, b := range text {
		switch classes[b] {
		case inSpace, inLineEnd:
			return i
		case inTail:
			two, one := before(text, i)
			if wideSpace(two, one, b) > 0 {
				return i
			}
		}
	}
	return -1
}

// before is the two bytes before place i of a text, 0 where there is none.
func before(text []byte, i int) (two, one byte) {
	if i > 0 {
		one = text[i-1]
	}
	if i > 1 {
		two = text[i-2]
	}
	return two, one
}

// Kinds of pieces.
const (
	noPiece   = iota // the text is used up
	wordPiece        // a word, with the white space before it
	linePiece        // the end of a line, with the white space before it
)

// piece is a part of the text that makes a token.
type piece struct {
	kind int
	word []byte // of wordPiece; nil if it is too long to be known. Valid until the next call
	size int64  // bytes of text
}

// next takes the first piece from what is pending and the text behind it. It takes up to the byte
// that ends the piece: of a word this is the white space behind the word, which is then pending. If
// the text ends before the piece does, all of it is pending. The pieces and what is pending do not
// depend on where the text was cut.
func (p *Pending) next(text []byte) (found piece, rest []byte) {
	if p.Line {
		p.Line = false
		return piece{kind: linePiece, size: 1}, text
	}
	at := 0 // where the word begins, or goes on
	for i := 0; i < len(text); i++ {
		b := text[i]
		class := classes[b]
		if class == inWord {
			continue
		}
		space := 1 // bytes of the white space that ends here
		if class == inTail {
			if space = p.wideSpace(text[at:i], b); space == 0 {
				continue
			}
		}
		if p.More == 0 && space == i+1-at+len(p.Word) { // no word has begun
			p.Word = p.Word[:0]
			if class == inLineEnd {
				found = piece{kind: linePiece, size: p.Space + int64(i-at) + 1}
				p.Space = 0
				return found, text[i+1:]
			}
			p.Space += int64(space)
			at = i + 1
			continue
		}
		found = p.end(text[at:i], space-1)
		if p.Line = class == inLineEnd; !p.Line {
			p.Space = int64(space)
		}
		return found, text[i+1:]
	}
	p.hold(text[at:])
	return piece{}, nil
}

// wideSpace is the function of that name for the byte behind the word that is pending and the part
// of it that has come since.
func (p *Pending) wideSpace(part []byte, last byte) int {
	two, one := before(part, len(part))
	if len(part) == 0 {
		two, one = before(p.Word, len(p.Word))
	} else if len(part) == 1 {
		_, two = before(p.Word, len(p.Word))
	}
	return wideSpace(two, one, last)
}

// end makes a piece of the word that is pending and its last part, without so many bytes at the end
// that are white space. Nothing is pending then.
func (p *Pending) end(part []byte, space int) piece {
	found := piece{kind: wordPiece, size: p.Space - int64(space)}
	if len(p.Word) == 0 { // the word is not pending: no byte need be copied
		found.size += int64(len(part))
		found.word = part[:len(part)-space]
	} else {
		p.hold(part)
		found.size += p.More + int64(len(p.Word))
		if p.More == 0 {
			found.word = p.Word[:len(p.Word)-space]
		}
	}
	if len(found.word) > MaxWordBytes {
		found.word = nil
	}
	p.Space, p.Word, p.More = 0, p.Word[:0], 0
	return found
}

// hold adds a part of a word to what is pending.
func (p *Pending) hold(part []byte) {
	total := len(p.Word) + len(part)
	if p.More == 0 && total <= heldMost {
		p.Word = append(p.Word, part...)
		return
	}
	tail := part[max(0, len(part)-heldTail):]
	kept := min(len(p.Word), heldTail-len(tail))
	copy(p.Word, p.Word[len(p.Word)-kept:])
	p.Word = append(p.Word[:kept], tail...)
	p.More += int64(total - heldTail)
}

// last makes a piece of what is pending at the end of a text, and the end of the line behind it,
// which is noPiece if the text ends with a line.
func (p *Pending) last() (word, line piece) {
	if p.Size() == 0 {
		return word, line
	}
	line.kind = linePiece
	switch {
	case p.Line:
		line.size = 1
	case len(p.Word) > 0:
		word = p.end(nil, 0)
	default:
		line.size = p.Space
	}
	p.Space, p.Line = 0, false
	return word, line
}
