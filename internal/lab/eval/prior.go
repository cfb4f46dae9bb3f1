package eval

// PriorBytes is how much text a prior is made of, at most.
const PriorBytes = 20 << 20

// readPrior counts the tokens of the files below a folder. Where they have more than so many bytes
// together, each file gives the same share from its beginning.
func readPrior(dir string, most int64) (*ngramCounts, error) {
	files, err := list(dir, 0)
	if err != nil {
		return nil, err
	}
	all := int64(0)
	for _, f := range files {
		all += f.Size
	}
	c := newNGramCounts()
	for _, f := range files {
		f.Size = int64(float64(f.Size) * min(1, float64(most)/float64(all)))
		text, err := read(f)
		if err != nil {
			return nil, err
		}
		c.last = c.last[:0] // a file is a text of its own
		for len(text) > 0 {
			n := tokenSize(text)
			c.add(string(text[:n]))
			text = text[n:]
		}
	}
	return c, nil
}
