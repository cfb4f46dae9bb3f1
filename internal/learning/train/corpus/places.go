package corpus

// Places is the number of places in all documents where length tokens begin.
func (c *Corpus) Places(length int) (n int) {
	for _, d := range c.Documents {
		n += max(0, d.Len()-length+1)
	}
	return n
}

// Place is the i'th of these places: a document and the number of tokens before the place.
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

// Draw is one of these places, each as likely as any other where the 64 bits are random.
func (c *Corpus) Draw(random uint64, length int) (d *Document, at int) {
	return c.Place(below(random, c.Places(length)), length)
}
