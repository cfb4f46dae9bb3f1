package stream

import (
	"context"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// proposer is a suggest.Source that finds candidates without running a network. After a prefix that
// no network has read, the companion predicts alone. The proposer's tree begins at the root of the
// search.
type proposer struct {
	*source
	tree  suggest.Tree
	begin companion.Mark
	root  int32
	none  companion.Networks // uniform distributions, for prefixes that no network has read
	known []int32            // for each prefix, its ID in the suggester's tree, or None
	path  []int32
}

// propose searches for candidates with the companion alone. The networks then read all found
// prefixes in one call.
func (src *source) propose(ctx context.Context, root int32, o suggest.Options) error {
	w, quick := src.w, o.Quick
	src.goTo(root)
	p := &proposer{source: src, begin: w.counts.Mark(w.along.companion), root: root}
	for n := range src.networks() {
		p.none[n] = make([]float32, 256)
		fill(p.none[n], -w.uniform())
	}
	o.Calls, o.Rows, o.Within, o.Quick = proposedRows, 1, 0, false
	if quick {
		o.Calls = proposedQuick
	}
	from := p.tree.Extend(p, suggest.None, nil, 1)
	_, err := p.tree.Search(ctx, p, from, o)
	w.counts.Drop(w.along.companion, p.begin)
	if err == nil {
		src.k.tree.Graft(src, root, &p.tree, SuggestRowsMax)
	}
	return err
}

// Grow implements suggest.Source.
func (p *proposer) Grow(of []suggest.Prefix) {
	for _, x := range of {
		known := p.root
		if x.Parent != suggest.None {
			known = p.k.tree.Child(p.known[x.Parent], x.Byte)
		}
		p.known = append(p.known, known)
		if known != suggest.None {
			copy(x.LogProbs, p.k.tree.LogProbs(known))
			continue
		}
		p.goTo(x.ID)
		p.w.counts.Distribution(p.w.along.companion, p.none, x.LogProbs)
	}
}

// Guess implements suggest.Source.
func (p *proposer) Guess(int32) []byte { return nil }

// goTo sets the companion to its state after a prefix.
func (p *proposer) goTo(id int32) {
	p.path = p.path[:0]
	for parent := id; ; id = parent {
		if parent, _ = p.tree.At(id); parent == suggest.None {
			break
		}
		p.path = append(p.path, id)
	}
	p.w.counts.Drop(p.w.along.companion, p.begin)
	for i := len(p.path) - 1; i >= 0; i-- {
		parent, b := p.tree.At(p.path[i])
		networks := p.none
		if known := p.known[parent]; known != suggest.None {
			networks = p.of(known)
		}
		p.w.counts.Score(p.w.along.companion, networks, b)
	}
}
