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
	Chars int64  // characters that begin in what is pending

	// Ended is the size of the white space that has ended Word, a line feed if Line is true: the
	// word was cut, and Word has the parts that are still to come, as there was no room for them.
	// It is 0 while the word may go on.
	Ended int64
}

// Due tells whether tokens are complete that are still to come, as there was no room for them.
func (p *Pending) Due() bool { return p.Line || p.Ended > 0 }

// Size is the number of bytes of text that are pending.
func (p *Pending) Size() int64 {
	n := p.Space + p.More + int64(len(p.Word))
	if p.Ended > 0 {
		return n + p.Ended
	}
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
		return fmt.Errorf("tokenizer: pending: found %d bytes of white space and %d left out, "+
			"expected none below 0", p.Space, p.More)
	case p.Ended < 0 || p.Ended > spaceMost || p.Line && p.Ended > 1:
		return fmt.Errorf("tokenizer: pending: found a word that %d bytes of white space have "+
			"ended, "+
			"expected at most %d, and 1 at the end of a line", p.Ended, spaceMost)
	case p.Ended > 0 && (p.Space|p.More != 0 || len(p.Word) == 0 || len(p.Word) > MaxWordBytes):
		return fmt.Errorf("tokenizer: pending: found no parts of a word alone that has ended, "+
			"expected 1 to %d bytes and no white space before them", MaxWordBytes)
	case p.Line && p.Ended == 0 && (p.Space|p.More != 0 || len(p.Word) > 0):
		return errors.New("tokenizer: pending: found text beside the end of a line, " +
			"expected the end of the line alone")
	case p.More > 0 && (len(p.Word) != heldTail || p.More <= heldMost-heldTail):
		return fmt.Errorf("tokenizer: pending: found %d bytes and %d left out, "+
			"expected %d of a word of more than %d", len(p.Word), p.More, heldTail, heldMost)
	case p.Chars < 0 || p.Chars > p.Size() || p.Line && p.Ended == 0 && p.Chars != 1:
		return fmt.Errorf("tokenizer: pending: found %d characters in %d bytes", p.Chars, p.Size())
	case len(p.Word) > heldMost:
		return fmt.Errorf("tokenizer: pending: found a word of %d bytes, expected at most %d",
			len(p.Word), heldMost)
	case indexSpace(p.Word) >= 0:
		return fmt.Errorf(
			"tokenizer: pending: found white space at byte %d of a word, expected none",
			indexSpace(p.Word))
	}
	return nil
}

// holdParts keeps the parts of the word that the text has just ended, for which there may be no
// room. They may be a part of p.Word's array.
func (p *Pending) holdParts(parts []byte) {
	p.Chars += int64(chars(parts))
	p.Word = append(p.Word[:0], parts...)
	if p.Ended, p.Space = p.Space, 0; p.Line {
		p.Ended = 1
	}
}

// dropPart drops the first part of a word that has ended, of this size and number of characters.
// Behind the last part the white space is pending.
func (p *Pending) dropPart(size int, chars int64) {
	p.Chars -= chars
	p.Word = append(p.Word[:0], p.Word[size:]...)
	if len(p.Word) > 0 {
		return
	}
	if !p.Line {
		p.Space = p.Ended
	}
	p.Ended = 0
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
