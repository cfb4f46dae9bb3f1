package corpus

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// The size of the text kept back for validation.
const (
	keepBackPart  = 25        // about 1/25 of the text
	keepBackMost  = 256 << 10 // largest number of bytes kept back, approximately
	keepBackFew   = 3         // smallest number of documents, if whole documents are kept back
	keepBackPiece = 4 << 10   // approximate minimum of bytes to cut off a document
)

// KeepBack splits a corpus into the text to train on and the text to validate on. If there is
// hardly any text, kept is nil. If there are small documents, it keeps back whole ones, drawn by
// the seed, but never the last one of a domain. Otherwise it keeps back the ends of some documents.
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

// shuffled returns the indexes of the documents in an order that depends on the seed.
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
// to be cut: 0 or its length.
func (c *Corpus) someWhole(order []int, want int) []int {
	cuts := c.uncut()
	missing, left := want, map[string]int{} // bytes still to choose; documents left per domain
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

// someEnds chooses the ends of documents, each in proportion to the document's size. An end has
// about keepBackPiece bytes or more, but at most half of the document. It begins at the start of a
// line if one is near.
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

// split cuts every document at its position.
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
