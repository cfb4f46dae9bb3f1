package tokenizer

import "unicode/utf8"

const (
	noPiece   = iota // the text contains no complete piece
	wordPiece        // a word, with the white space before it
	linePiece        // the end of a line, with the white space before it
)

// piece is a part of the text that becomes a token.
type piece struct {
	kind int
	word []byte // valid until the next call; nil if the word is too long for a vocabulary
	size int64  // size in bytes, including white space
	// chars is the number of characters that begin in the piece.
	chars int64
}

// next is split with a count of characters: it sets found.chars and updates p.Chars.
func (p *Pending) next(text []byte) (found piece, rest []byte) {
	found, rest = p.split(text)
	p.Chars += int64(chars(text[:len(text)-len(rest)]))
	if found.kind != noPiece {
		found.chars, p.Chars = p.Chars, 0
		if p.Size() > 0 { // the white space character that ended the word is still pending
			found.chars, p.Chars = found.chars-1, 1
		}
	}
	return found, rest
}

// split removes the first piece from the pending text followed by text, and returns the rest of
// text. White space that ends a word stays pending. If no piece is complete, all of text becomes
// pending. Pieces do not depend on how the text was divided among calls.
func (p *Pending) split(text []byte) (found piece, rest []byte) {
	if p.Line {
		p.Line = false
		return piece{kind: linePiece, size: 1}, text
	}
	at := 0 // index in text where the word begins or continues
	for i := 0; i < len(text); i++ {
		b := text[i]
		class := classes[b]
		if class == inWord {
			continue
		}
		space := 1 // size in bytes of the white space character that ends at i
		if class == inTail {
			if space = p.wideSpace(text[at:i], b); space == 0 {
				continue
			}
		}
		if p.More == 0 && space == i+1-at+len(p.Word) { // no word has begun yet
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

// wideSpace returns the size of the multi-byte white space character that ends with last, after the
// pending word and part. It returns 0 if there is none.
func (p *Pending) wideSpace(part []byte, last byte) int {
	two, one := before(part, len(part))
	if len(part) == 0 {
		two, one = before(p.Word, len(p.Word))
	} else if len(part) == 1 {
		_, two = before(p.Word, len(p.Word))
	}
	return wideSpace(two, one, last)
}

// end returns a piece of the pending word followed by part. The last `space` bytes are white space
// and do not belong to the piece. Nothing is pending afterwards.
func (p *Pending) end(part []byte, space int) piece {
	found := piece{kind: wordPiece, size: p.Space - int64(space)}
	if len(p.Word) == 0 {
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

// last returns the pieces that are pending at the end of a text: the last word, and the end of the
// last line. The kind of a missing piece is noPiece.
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

// chars returns the number of UTF-8 characters that begin in text. It does not count continuation
// bytes, so the counts of pieces add up, wherever the text is cut.
func chars(text []byte) (n int) {
	for _, b := range text {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
