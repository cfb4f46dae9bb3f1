package session

import "slices"

// detail says what a caller wants reported besides the totals of a text.
type detail struct {
	logProbs  bool
	top       int // number of likeliest tokens to report per token
	chunkText bool
	lines     bool
	records   bool
	incidents bool // only lines that open, join or end incidents
	lineText  bool
	tokenBits bool
	updates   bool
	// also report the first line that ends in the text, and with each reported line the incidents
	// of the unreported lines before it
	first bool
}

func (o *ScoreOptions) detail() detail {
	return detail{
		logProbs: o.LogProbs, top: o.Top, lines: o.Lines && !o.Records, records: o.Records,
		incidents: o.Lines && o.Incidents,
		first:     o.Lines && o.Incidents, lineText: o.Lines && o.Text,
		tokenBits: o.Lines && o.TokenBits, updates: o.Updated != nil,
	}
}

// and returns a detail that includes all that d and e ask for.
func (d detail) and(e detail) detail {
	return detail{
		logProbs: d.logProbs || e.logProbs, top: max(d.top, e.top),
		chunkText: d.chunkText || e.chunkText, lines: d.lines || e.lines,
		lineText: d.lineText || e.lineText, tokenBits: d.tokenBits || e.tokenBits,
		updates: d.updates || e.updates, first: d.first || e.first, records: d.records || e.records,
		// Lines are filtered by incidents only if every caller that wants lines wants this filter.
		incidents: (d.incidents || !d.lines) && (e.incidents || !e.lines) && (d.lines || e.lines),
	}
}

func (d detail) covers(e detail) bool { return d.and(e) == d }

// only is a filter: it returns the parts of a chunk that d selects. These parts share memory with
// the chunk.
func (c Chunk) only(d detail) Chunk {
	if !d.logProbs {
		c.LogProbs, c.BaselineLogProbs, c.Words = nil, nil, nil
	}
	c.Top, c.BaselineTop = firstOf(c.Top, d.top), firstOf(c.BaselineTop, d.top)
	if !d.chunkText {
		c.Text = nil
	}
	if !d.records {
		c.Records = nil
	} else if !d.lineText {
		c.Records = slices.Clone(c.Records)
		for i := range c.Records {
			c.Records[i].Text = nil
		}
	}
	switch {
	case !d.lines:
		c.Lines = nil
	case d.incidents || !d.lineText || !d.tokenBits:
		c.Lines = slices.Clone(c.Lines)
		if d.incidents {
			c.Lines = slices.DeleteFunc(c.Lines, func(l Line) bool {
				return !l.news &&
					!(d.first && l.first)
			})
		}
		for i := range c.Lines {
			if d.first {
				c.Lines[i].Incidents = c.Lines[i].joined
			}
			c.Lines[i].joined = nil
			if !d.lineText {
				c.Lines[i].Text = nil
			}
			if !d.tokenBits {
				c.Lines[i].TokenBits = nil
			}
		}
	}
	return c
}

// firstOf returns the n likeliest tokens of each list; nil if n is 0.
func firstOf(top [][]Candidate, n int) [][]Candidate {
	if n == 0 || top == nil {
		return nil
	}
	if len(top) == 0 || len(top[0]) <= n {
		return top
	}
	first, room := make([][]Candidate, len(top)), make([]Candidate, 0, n*len(top))
	for i, all := range top {
		at := len(room)
		room = append(room, all[:n]...)
		first[i] = room[at:len(room):len(room)]
	}
	return first
}
