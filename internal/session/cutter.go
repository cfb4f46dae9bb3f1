package session

import (
	"bytes"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/tokenizer"
)

// cutter turns sampled tokens into pieces of text: whole characters, and nothing that may turn out
// to belong to a stop string. The scores of a token come with the piece that has its last byte.
type cutter struct {
	stops    []string
	logProbs bool // pieces have log-probabilities
	top      bool // pieces have the likeliest tokens
	words    bool // tokens are words; else each is a byte

	held    string         // may be the beginning of a stop string
	half    tokenizer.UTF8 // holds what may be the beginning of a character
	waiting tokenScores    // of all that is held back
	told    int            // bytes of the first word that is waiting that were told
	tail    []byte         // what was echoed behind the last word: the next one begins with it
}

// tokenScores are the scores of some tokens, as far as they are asked for.
type tokenScores struct {
	logProbs []float64
	top      [][]Candidate
	words    []Word // where tokens are words
}

// echo appends tokens that were not sampled, which no stop string ends.
func (c *cutter) echo(text []byte, scores tokenScores) Piece {
	c.waiting.logProbs = append(c.waiting.logProbs, scores.logProbs...)
	c.waiting.top = append(c.waiting.top, scores.top...)
	c.waiting.words = append(c.waiting.words, scores.words...)
	if c.words {
		c.tail = append(c.tail, text...)
		for _, word := range scores.words {
			c.tail = c.tail[len(word.Text):]
		}
	}
	return c.piece(c.half.Append(nil, text))
}

// note tells the likeliest tokens at the token that push appends next.
func (c *cutter) note(top []Candidate) {
	if c.top {
		c.waiting.top = append(c.waiting.top, top)
	}
}

// push appends a token, and gives what may be seen of the text now. If the token completes a stop
// string, the text has ended before that string.
func (c *cutter) push(id int32, text []byte, logProb float64) (p Piece, stopped bool) {
	if c.logProbs {
		c.waiting.logProbs = append(c.waiting.logProbs, logProb)
		if c.words {
			word := Word{ID: id, Text: slices.Concat(c.tail, text)}
			c.waiting.words, c.tail = append(c.waiting.words, word), nil
		}
	}
	for i := range text {
		c.held += string(text[i : i+1])
		longest := 0
		for _, stop := range c.stops {
			if strings.HasSuffix(c.held, stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			c.held = c.held[:len(c.held)-longest]
			return c.end(), true
		}
	}
	ready := len(c.held) - c.stopBegun()
	p = c.piece(c.half.Append(nil, []byte(c.held[:ready])))
	c.held = c.held[ready:]
	return p, false
}

// stopBegun is the length of the longest end of held that a stop string begins with.
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

// end gives all that is held back. The last word may be cut.
func (c *cutter) end() Piece {
	text := c.half.Flush(c.half.Append(nil, []byte(c.held)))
	c.held = ""
	if c.words {
		c.cutWord(len(text))
	}
	return c.piece(text)
}

// cutWord cuts the word in which the text ends that has so many bytes more.
func (c *cutter) cutWord(more int) {
	left := c.told + more
	for i := range c.waiting.words {
		word := &c.waiting.words[i]
		if left > 0 && left < len(word.Text) {
			word.Text = bytes.Clone(word.Text[:left])
		}
		left -= len(word.Text)
	}
}

// piece is a piece of text with the scores of the tokens that end in it.
func (c *cutter) piece(text []byte) Piece {
	p, n := Piece{Text: text}, len(text)
	if c.words {
		n = c.complete(len(text))
		p.Words, c.waiting.words = c.waiting.words[:n:n], c.waiting.words[n:]
	}
	if c.logProbs {
		p.LogProbs, c.waiting.logProbs = c.waiting.logProbs[:n:n], c.waiting.logProbs[n:]
	}
	if c.top {
		p.Top, c.waiting.top = c.waiting.top[:n:n], c.waiting.top[n:]
	}
	return p
}

// complete is how many of the words that are waiting end in the next bytes of the text.
func (c *cutter) complete(bytes int) (n int) {
	c.told += bytes
	for n < len(c.waiting.words) && len(c.waiting.words[n].Text) <= c.told {
		c.told -= len(c.waiting.words[n].Text)
		n++
	}
	return n
}
