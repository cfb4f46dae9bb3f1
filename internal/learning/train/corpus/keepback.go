package corpus

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// What is kept back for validation.
const (
	keepBackPart  = 25        // about a twenty-fifth of the text
	keepBackMost  = 256 << 10 // largest number of bytes, about
	keepBackFew   = 3         // least number of documents, if whole ones are kept back
	keepBackPiece = 4 << 10   // bytes: a shorter end of a document is not worth cutting off
)

// KeepBack splits a corpus in the text to train on and the text to validate on, which is nil if
// there is next to no text. If there are small documents, whole ones are kept back, drawn by the
// seed, but never the last one of a domain; otherwise the ends of some documents are.
func (c *Corpus) KeepBack(seed uint64) (rest, kept *Corpus) {
	want := min(c.Bytes()/keepBackPart, keepBackMost)
	order := c.shuffled(seed)
	rest, kept = c.split(c.someWhole(order, want))
	if missing := want - kept.Bytes(); missing > want/2 {
		rest, kept = c.split(c.someEnds(order, want))
	}
	if len(kept.Documents) == 0 {
		return c, nil
	}
	return rest, kept
}

// shuffled are the numbers of the documents in an order that the seed decides.
func (c *Corpus) shuffled(seed uint64) []int {
	order := make([]int, len(c.Documents))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(kernel.Bits(seed, uint64(a)), kernel.Bits(seed, uint64(b))),
			cmp.Compare(a, b))
	})
	return order
}

// someWhole chooses whole documents of about want bytes in all. It returns where each document is
// to be cut: here 0 or its length.
func (c *Corpus) someWhole(order []int, want int) []int {
	cuts := c.uncut()
	missing, left := want, map[string]int{} // documents left in a domain
	for _, d := range c.Documents {
		left[d.Domain]++
	}
	for _, i := range order {
		d := c.Documents[i]
		if missing > 0 && len(d.Text) <= want/keepBackFew && left[d.Domain] > 1 {
			cuts[i] = 0
			missing -= len(d.Text)
			left[d.Domain]--
		}
	}
	return cuts
}

// someEnds chooses the ends of documents, each in proportion to the document's size, but not less
// than is worth cutting off and not more than half. An end begins at the start of a line where one
// is near.
func (c *Corpus) someEnds(order []int, want int) []int {
	cuts := c.uncut()
	total, missing := c.Bytes(), want
	for _, i := range order {
		text := c.Documents[i].Text
		size := min(max(keepBackPiece, want*len(text)/total), missing, len(text)/2)
		if size > 0 {
			cuts[i] = c.Documents[i].lineStart(len(text)-size, '\n')
			missing -= len(text) - cuts[i]
		}
	}
	return cuts
}

func (c *Corpus) uncut() []int {
	cuts := make([]int, len(c.Documents))
	for i, d := range c.Documents {
		cuts[i] = len(d.Text)
	}
	return cuts
}

// split cuts every document at its place.
func (c *Corpus) split(cuts []int) (before, after *Corpus) {
	before, after = &Corpus{Dir: c.Dir}, &Corpus{Dir: c.Dir}
	for i, d := range c.Documents {
		if cuts[i] > 0 {
			before.Documents = append(before.Documents, NewDocument(d.Name, d.Text[:cuts[i]]))
		}
		if cuts[i] < len(d.Text) {
			after.Documents = append(after.Documents, NewDocument(d.Name, d.Text[cuts[i]:]))
		}
	}
	return before, after
}
