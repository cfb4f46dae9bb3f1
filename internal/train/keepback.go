package train

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/internal/kernel"
)

// What is kept back for validation.
const (
	keepBackPart  = 25        // about a twenty-fifth of the text
	keepBackMost  = 256 << 10 // bytes: about that at most
	keepBackPiece = 4 << 10   // bytes: the end of a document, unless it is the largest
)

// keepBack splits a corpus in the text to train on and the text to validate on, which is nil if there is next to no text. Whole documents
// are kept back, drawn by the seed, but never the last one of a domain; if the documents are too large for that, it is the ends of the
// large ones.
func (c *Corpus) keepBack(seed uint64) (rest, kept *Corpus) {
	want := min(c.Bytes()/keepBackPart, keepBackMost)
	if want == 0 {
		return c, nil
	}
	left := map[string]int{} // documents of a domain
	for _, d := range c.Documents {
		left[d.Domain]++
	}
	keep := make([]bool, len(c.Documents))
	taken := 0
	for _, i := range c.shuffled(seed) {
		d := &c.Documents[i]
		if taken < want && taken+len(d.Text) <= 2*want && left[d.Domain] > 1 {
			keep[i], taken = true, taken+len(d.Text)
			left[d.Domain]--
		}
	}
	rest, kept = &Corpus{Dir: c.Dir}, &Corpus{Dir: c.Dir}
	for i, d := range c.Documents {
		to := rest
		if keep[i] {
			to = kept
		}
		to.Documents = append(to.Documents, d)
	}
	if missing := want - taken; missing > want/2 {
		rest.cutEnds(kept, missing)
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
		return cmp.Or(cmp.Compare(kernel.Bits(seed, uint64(a)), kernel.Bits(seed, uint64(b))), cmp.Compare(a, b))
	})
	return order
}

// cutEnds moves about size bytes in all to another corpus: each document's share of them from its end, if that is a text worth
// validating on, and the largest document's share in any case.
func (c *Corpus) cutEnds(to *Corpus, size int) {
	total, largest := c.Bytes(), 0
	for i := range c.Documents {
		if len(c.Documents[i].Text) > len(c.Documents[largest].Text) {
			largest = i
		}
	}
	for i := range c.Documents {
		d := &c.Documents[i]
		share := size * len(d.Text) / total
		if share < keepBackPiece && i != largest {
			continue
		}
		at := lineStart(d.Text, max(1, len(d.Text)-max(1, share)))
		to.Documents = append(to.Documents, Document{d.Name, d.Domain, d.Text[at:]})
		d.Text = d.Text[:at]
	}
}
