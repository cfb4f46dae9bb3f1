package corpus

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// These constants determine how much text is kept back for validation.
const (
	keepBackPart  = 25        // about 1/25 of the text is kept back
	keepBackMost  = 256 << 10 // largest number of bytes kept back, approximately
	keepBackFew   = 3         // smallest number of documents, if whole documents are kept back
	keepBackPiece = 4 << 10   // approximate minimum of bytes cut off from a document
)

// KeepBack splits a corpus: rest is for training, kept for validation. If there are enough small
// documents, KeepBack keeps back whole documents, chosen by the seed, but never all of a domain.
// Otherwise KeepBack keeps back the ends of some documents. If there is too little text to split,
// kept is nil.
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

// someWhole chooses whole documents with about `want` bytes in total. It returns for each document
// where the kept-back text begins: 0 for a chosen document, else the document's length.
func (c *Corpus) someWhole(order []int, want int) []int {
	cuts := c.uncut()
	// missing is in bytes; left counts the documents not chosen in each domain
	missing, left := want, map[string]int{}
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

// someEnds chooses the ends of documents. An end's size is in proportion to the document's size,
// but at least about keepBackPiece bytes. No end is larger than half of the document. An end begins
// at the start of a line if one is near.
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
