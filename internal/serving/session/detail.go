package session

import "slices"

// detail is what a caller asks to be told of a text beside its totals.
type detail struct {
	logProbs  bool
	top       int  // likeliest tokens at each token
	chunkText bool // the text of chunks
	lines     bool
	records   bool
	incidents bool // of lines only those with news of incidents
	first     bool // and the first of those that end in a text
	lineText  bool
	tokenBits bool // what each byte of a line's text has cost
	updates   bool
}

func (o *ScoreOptions) detail() detail {
	return detail{
		logProbs: o.LogProbs, top: o.Top, lines: o.Lines && !o.Records, records: o.Records,
		incidents: o.Lines && o.Incidents,
		first:     o.Lines && o.Incidents, lineText: o.Lines && o.Text,
		tokenBits: o.Lines && o.TokenBits, updates: o.Updated != nil,
	}
}

// and is what either of two callers asks for.
func (d detail) and(e detail) detail {
	return detail{
		logProbs: d.logProbs || e.logProbs, top: max(d.top, e.top),
		chunkText: d.chunkText || e.chunkText, lines: d.lines || e.lines,
		lineText: d.lineText || e.lineText, tokenBits: d.tokenBits || e.tokenBits,
		updates: d.updates || e.updates, first: d.first || e.first, records: d.records || e.records,
		// Whoever asks for no lines has nothing against few of them.
		incidents: (d.incidents || !d.lines) && (e.incidents || !e.lines) && (d.lines || e.lines),
	}
}

// covers reports whether all that another caller asks for is told to this one.
func (d detail) covers(e detail) bool { return d.and(e) == d }

// only is what of a chunk this caller asks for. It shares the chunk's memory, but keeps none of it
// that the caller has not asked for.
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

// firstOf gives the n likeliest of the tokens at each token; nil if n is 0.
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
