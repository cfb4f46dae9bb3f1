package eval

import "context"

// PriorBytes is the maximum size in bytes of the prior text, from which NGramPrior learns before
// the session.
const PriorBytes = 20 << 20

func readPrior(ctx context.Context, dir string) (*ngramCounts, error) {
	texts, err := priorTexts(dir, PriorBytes)
	if err != nil {
		return nil, err
	}
	c := newNGramCounts()
	for _, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.last = c.last[:0] // contexts do not extend over the border between two files
		for len(text) > 0 {
			n := tokenSize(text)
			c.add(string(text[:n]))
			text = text[n:]
		}
	}
	return c, nil
}

// priorTexts reads the files below a folder, at most `most` bytes in total. If the files are
// larger, it reads the same fraction of each file, from the file's beginning.
func priorTexts(dir string, most int64) (texts [][]byte, err error) {
	files, err := list(dir, 0)
	if err != nil {
		return nil, err
	}
	all := int64(0)
	for _, f := range files {
		all += f.Size
	}
	for _, f := range files {
		f.Size = int64(float64(f.Size) * min(1, float64(most)/float64(all)))
		text, err := read(f)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}
