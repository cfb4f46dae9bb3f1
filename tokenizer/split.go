package tokenizer

import "unicode/utf8"

// Kinds of pieces.
const (
	noPiece   = iota // the text is used up
	wordPiece        // a word, with the white space before it
	linePiece        // the end of a line, with the white space before it
)

// piece is a part of the text that becomes a token.
type piece struct {
	kind int
	word []byte // valid until the next call; nil if too long to be known
	size int64  // bytes of text
	// chars is the number of characters that begin in these bytes.
	chars int64
}

// next takes the first piece from the pending text and the text after it, and counts characters.
func (p *Pending) next(text []byte) (found piece, rest []byte) {
	found, rest = p.split(text)
	p.Chars += int64(chars(text[:len(text)-len(rest)]))
	if found.kind != noPiece {
		found.chars, p.Chars = p.Chars, 0
		if p.Size() > 0 { // one character of white space, which ended a word
			found.chars, p.Chars = found.chars-1, 1
		}
	}
	return found, rest
}

// split takes the first piece from the pending text and the text after it, up to the byte that ends
// the piece. White space that ends a word is pending afterwards. If the text ends before the piece
// does, the whole text is pending. Pieces and pending text do not depend on where the text was cut.
func (p *Pending) split(text []byte) (found piece, rest []byte) {
	if p.Line {
		p.Line = false
		return piece{kind: linePiece, size: 1}, text
	}
	at := 0 // where the word begins or continues
	for i := 0; i < len(text); i++ {
		b := text[i]
		class := classes[b]
		if class == inWord {
			continue
		}
		space := 1 // size of the white space that ends here
		if class == inTail {
			if space = p.wideSpace(text[at:i], b); space == 0 {
				continue
			}
		}
		if p.More == 0 && space == i+1-at+len(p.Word) { // no word has begun
			p.Word = p.Word[:0]
			if class == inLineEnd {
				found = piece{kind: linePiece, size: p.Space + 1}
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

// wideSpace returns the size of the white space character that ends with the byte last, after the
// pending word and part; 0 if there is none.
func (p *Pending) wideSpace(part []byte, last byte) int {
	two, one := before(part, len(part))
	if len(part) == 0 {
		two, one = before(p.Word, len(p.Word))
	} else if len(part) == 1 {
		_, two = before(p.Word, len(p.Word))
	}
	return wideSpace(two, one, last)
}

// end makes a piece of the pending word and its last part, without the last `space` bytes, which
// are white space. Nothing is pending afterwards.
func (p *Pending) end(part []byte, space int) piece {
	found := piece{kind: wordPiece, size: p.Space - int64(space)}
	if len(p.Word) == 0 { // the word is not pending, so no byte needs a copy
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

// last makes pieces of what is pending at the end of a text: the last word, and the end of the last
// line. line is noPiece if the text ends with a newline.
func (p *Pending) last() (word, line piece) {
	if p.Size() == 0 {
		return word, line
	}
	line.kind = linePiece
	switch {
	case p.Line:
		line.size, line.chars = 1, p.Chars
	case len(p.Word) > 0:
		word = p.end(nil, 0)
		word.chars = p.Chars
	default:
		line.size, line.chars = p.Space, p.Chars
	}
	p.Space, p.Line, p.Chars = 0, false, 0
	return word, line
}

// chars returns the number of characters that begin in a text. Continuation bytes of UTF-8 do not
// count, so the number does not depend on where a text was cut.
func chars(text []byte) (n int) {
	for _, b := range text {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
