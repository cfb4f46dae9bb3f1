package tokenizer

import (
	"errors"
	"fmt"
)

// MaxWordBytes is the maximum length of a word in a vocabulary. Any longer word of a text is one
// unknown word.
const MaxWordBytes = 1024

// heldMost is the maximum length of Pending.Word in bytes: the longest known word, and the first
// bytes of a possible white space character.
const heldMost = MaxWordBytes + spaceMost - 1

// heldTail is the number of bytes that Pending keeps of a word too long for a vocabulary. These
// bytes can be the beginning of a white space character.
const heldTail = spaceMost - 1

// Pending is the text after a stream's last complete token. It does not depend on how the text was
// divided into pieces, and needs about one kilobyte at most. The zero value is the beginning of a
// text; Bytes always leaves the zero value. Pending is plain data that can be stored. Check
// validates stored data.
type Pending struct {
	Space int64 // number of bytes of white space before Word
	// the beginning of a word, or the last bytes of a word too long for a vocabulary
	Word  []byte
	More  int64 // number of bytes dropped from a word that is too long for a vocabulary
	Line  bool  // a line has ended, but its token is not yet in Tokens
	Chars int64 // number of characters that begin in the pending text

	// Ended is the size in bytes of the white space that ended a word, or 0 while the word may
	// continue. If Ended > 0, the word was cut into parts, and Word contains the parts that are not
	// yet in Tokens.
	Ended int64
}

// Due reports whether p contains complete tokens that Next has not yet added.
func (p *Pending) Due() bool { return p.Line || p.Ended > 0 }

// Size returns the number of pending bytes.
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

// CopyFrom copies o into p without sharing memory.
func (p *Pending) CopyFrom(o *Pending) {
	word := append(p.Word[:0], o.Word...)
	*p = *o
	p.Word = word
}

// Check returns an error if p cannot result from any text. It validates stored data.
func (p *Pending) Check() error {
	switch {
	case p.Space < 0 || p.More < 0:
		return fmt.Errorf("tokenizer: pending: found %d bytes of white space and %d dropped "+
			"bytes, expected 0 or more of each", p.Space, p.More)
	case p.Ended < 0 || p.Ended > spaceMost || p.Line && p.Ended > 1:
		return fmt.Errorf("tokenizer: pending: found %d bytes of white space after a word, "+
			"expected at most %d, or at most 1 at the end of a line", p.Ended, spaceMost)
	case p.Ended > 0 && (p.Space|p.More != 0 || len(p.Word) == 0 || len(p.Word) > MaxWordBytes):
		return fmt.Errorf("tokenizer: pending: found a complete word of %d bytes, expected 1 to "+
			"%d bytes, without white space before it and without dropped bytes",
			len(p.Word), MaxWordBytes)
	case p.Line && p.Ended == 0 && (p.Space|p.More != 0 || len(p.Word) > 0):
		return errors.New("tokenizer: pending: found text and the end of a line, expected " +
			"only the end of the line")
	case p.More > 0 && (len(p.Word) != heldTail || p.More <= heldMost-heldTail):
		return fmt.Errorf("tokenizer: pending: %d bytes of a long word are kept and %d bytes "+
			"are dropped, expected %d bytes kept and at least %d bytes dropped",
			len(p.Word), p.More, heldTail, heldMost-heldTail+1)
	case p.Chars < 0 || p.Chars > p.Size() || p.Line && p.Ended == 0 && p.Chars != 1:
		return fmt.Errorf("tokenizer: pending: found %d characters in %d bytes, which is "+
			"impossible", p.Chars, p.Size())
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

// holdParts stores the remaining parts of a word that has ended, because Tokens may have no space
// for them. parts and p.Word may share memory.
func (p *Pending) holdParts(parts []byte) {
	p.Chars += int64(chars(parts))
	p.Word = append(p.Word[:0], parts...)
	if p.Ended, p.Space = p.Space, 0; p.Line {
		p.Ended = 1
	}
}

// dropPart removes the first part of an ended word. size is the part's number of bytes, chars its
// number of characters. After the last part, only white space is pending.
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

// hold appends part to the pending word. Of a word that is too long for a vocabulary, it keeps only
// the last bytes.
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
