package session

import (
	"strings"

	"github.com/lmserve/lmserve/tokenizer"
)

// cutter turns sampled tokens into pieces of text. A piece contains only whole characters. Text
// that may be the beginning of a stop string is held back. The piece with the last byte of a token
// also has the scores of the token.
type cutter struct {
	stops    []string
	logProbs bool
	top      bool
	words    bool // tokens are words, not bytes

	held    string
	half    tokenizer.UTF8 // bytes of an incomplete character
	waiting tokenScores    // scores of tokens that no piece contains yet
	told    int64          // bytes already returned of the first word in waiting
	// tail is the number of bytes of the echoed text after its last word. The next word begins with
	// these bytes.
	tail    int
	sampled int // bytes of sampled text, without stop strings
}

type tokenScores struct {
	logProbs []float64
	top      [][]Candidate
	words    tokenizer.Tokens // ids and sizes of the tokens; empty if tokens are bytes
}

func (s *tokenScores) addWord(id int32, size int) {
	s.words.IDs, s.words.Sizes = append(s.words.IDs, id), append(s.words.Sizes, int64(size))
}

// echo appends text that was not sampled, such as the prompt. Stop strings do not apply to this
// text.
func (c *cutter) echo(text []byte, scores tokenScores) Piece {
	c.waiting.logProbs = append(c.waiting.logProbs, scores.logProbs...)
	c.waiting.top = append(c.waiting.top, scores.top...)
	for i, id := range scores.words.IDs {
		c.waiting.addWord(id, int(scores.words.Sizes[i]))
	}
	c.tail += len(text) - int(scores.words.Size())
	return c.piece(c.half.Append(nil, text))
}

// note records the likeliest tokens for the next position. It must be called before push.
func (c *cutter) note(top []Candidate) {
	if c.top {
		c.waiting.top = append(c.waiting.top, top)
	}
}

// push appends a token and returns the text that is no longer held back. If the token completes a
// stop string, the text ends before that string.
func (c *cutter) push(id int32, text []byte, logProb float64) (p Piece, stopped bool) {
	if c.logProbs {
		c.waiting.logProbs = append(c.waiting.logProbs, logProb)
		if c.words {
			c.waiting.addWord(id, c.tail+len(text))
			c.tail = 0
		}
	}
	for i := range text {
		c.sampled++
		c.held += string(text[i : i+1])
		longest := 0
		for _, stop := range c.stops {
			if strings.HasSuffix(c.held, stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			c.held = c.held[:len(c.held)-longest]
			c.sampled -= longest
			return c.end(), true
		}
	}
	ready := len(c.held) - c.stopBegun()
	p = c.piece(c.half.Append(nil, []byte(c.held[:ready])))
	c.held = c.held[ready:]
	return p, false
}

// stopBegun returns the length of the longest suffix of c.held that is the beginning of a stop
// string.
func (c *cutter) stopBegun() int {
	for i := range len(c.held) {
		for _, stop := range c.stops {
			if strings.HasPrefix(stop, c.held[i:]) {
				return len(c.held) - i
			}
		}
	}
	return 0
}

// end returns the text that was held back, without the sampled bytes of an incomplete last
// character. Bytes of an echoed prompt are never dropped. If the text ends within a word, the size
// of this word is shortened.
func (c *cutter) end() Piece {
	text := c.half.Append(nil, []byte(c.held))
	half := c.half.Flush(nil)
	text = append(text, half[:max(0, len(half)-c.sampled)]...)
	c.held = ""
	if c.words {
		c.cutWord(len(text))
	}
	return c.piece(text)
}

// cutWord shortens the size of the last word if the text ends within the word. more is the number
// of bytes of text still to be returned.
func (c *cutter) cutWord(more int) {
	left, sizes := c.told+int64(more), c.waiting.words.Sizes
	for i := range sizes {
		if left > 0 {
			sizes[i] = min(sizes[i], left)
		}
		left -= sizes[i]
	}
}

// piece returns a piece with the given text and the scores of the tokens that end in it.
func (c *cutter) piece(text []byte) Piece {
	p, n := Piece{Text: text}, len(text)
	if c.words {
		n = c.wordsIn(int64(len(text)))
		words := &c.waiting.words
		p.Words.IDs, words.IDs = words.IDs[:n:n], words.IDs[n:]
		p.Words.Sizes, words.Sizes = words.Sizes[:n:n], words.Sizes[n:]
	}
	if c.logProbs {
		p.LogProbs, c.waiting.logProbs = c.waiting.logProbs[:n:n], c.waiting.logProbs[n:]
	}
	if c.top {
		p.Top, c.waiting.top = c.waiting.top[:n:n], c.waiting.top[n:]
	}
	return p
}

// wordsIn advances by the given number of bytes and returns how many waiting words end in these
// bytes.
func (c *cutter) wordsIn(bytes int64) (n int) {
	c.told += bytes
	for sizes := c.waiting.words.Sizes; n < len(sizes) && sizes[n] <= c.told; n++ {
		c.told -= sizes[n]
	}
	return n
}
