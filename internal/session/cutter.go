package session

import (
	"strings"

	"github.com/lmserve/lmserve/tokenizer"
)

// cutter turns sampled tokens into pieces of text: whole characters, and nothing that may turn out
// to belong to a stop string. A token is a byte.
type cutter struct {
	stops    []string
	logProbs bool // pieces have log-probabilities
	top      bool // pieces have the likeliest tokens

	held    string         // may be the beginning of a stop string
	half    tokenizer.UTF8 // holds what may be the beginning of a character
	waiting tokenScores    // of all that is held back
}

// tokenScores are the scores of some tokens, as far as they are asked for.
type tokenScores struct {
	logProbs []float64
	top      [][]Candidate
}

// echo appends tokens that were not sampled, which no stop string ends.
func (c *cutter) echo(text []byte, scores tokenScores) Piece {
	c.waiting.logProbs = append(c.waiting.logProbs, scores.logProbs...)
	c.waiting.top = append(c.waiting.top, scores.top...)
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
func (c *cutter) push(token byte, logProb float64) (p Piece, stopped bool) {
	c.held += string([]byte{token})
	if c.logProbs {
		c.waiting.logProbs = append(c.waiting.logProbs, logProb)
	}
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

// end gives all that is held back.
func (c *cutter) end() Piece {
	text := c.half.Flush(c.half.Append(nil, []byte(c.held)))
	c.held = ""
	return c.piece(text)
}

func (c *cutter) piece(text []byte) Piece {
	p, n := Piece{Text: text}, len(text)
	if c.logProbs {
		p.LogProbs, c.waiting.logProbs = c.waiting.logProbs[:n:n], c.waiting.logProbs[n:]
	}
	if c.top {
		p.Top, c.waiting.top = c.waiting.top[:n:n], c.waiting.top[n:]
	}
	return p
}
