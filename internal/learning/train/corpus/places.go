package corpus

// Places returns the number of positions, in all documents, that are followed by at least `length`
// tokens.
func (c *Corpus) Places(length int) (n int) {
	for _, d := range c.Documents {
		n += max(0, d.Len()-length+1)
	}
	return n
}

// Place returns the i'th of the positions that Places counts: a document and the number of tokens
// before the position.
func (c *Corpus) Place(i, length int) (d *Document, at int) {
	for k := range c.Documents {
		d := &c.Documents[k]
		n := max(0, d.Len()-length+1)
		if i < n {
			return d, i
		}
		i -= n
	}
	panic("corpus: Place: the place lies beyond the text")
}

// Draw returns a position from those that Places counts. If `random` is 64 random bits, all
// positions are equally likely.
func (c *Corpus) Draw(random uint64, length int) (d *Document, at int) {
	return c.Place(below(random, c.Places(length)), length)
}
