package session

import (
	"strings"

	"github.com/lmserve/lmserve/tokenizer"
)

// cutter turns sampled tokens into pieces of text: whole characters, and nothing that may turn out
// to belong to a stop string. A token is a byte.
type cutter struct {
	stops    []string
	logProbs bool // pieces have them

	held    string         // may be the beginning of a stop string
	half    tokenizer.UTF8 // holds what may be the beginning of a character
	waiting []float64      // log-probabilities of all that is held back
}

// push appends a token, and gives what may be seen of the text now. If the token completes a stop
// string, the text has ended before that string.
func (c *cutter) push(token byte, logProb float64) (p Piece, stopped bool) {
	c.held += string([]byte{token})
	if c.logProbs {
		c.waiting = append(c.waiting, logProb)
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
	p := Piece{Text: text}
	if c.logProbs {
		p.LogProbs, c.waiting = c.waiting[:len(text):len(text)], c.waiting[len(text):]
	}
	return p
}
