package corpus

import (
	"fmt"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// PiecesState is the complete state of a Pieces.
type PiecesState struct {
	Piece uint64 `json:"piece"`
	// index of the current piece's domain; -1 before the first piece
	Domain int   `json:"domain"`
	Doc    int   `json:"doc"`
	Pos    int   `json:"pos"` // index of the next token in the document
	End    int   `json:"end"` // index after the piece's last token in the document
	Last   int32 `json:"last"`
}

// Pieces is an endless stream of pieces of documents, for online meta-training. Consecutive pieces
// are usually from different domains, so that the fast weights must adapt often. If some domains
// are held out from pretraining, about half of the pieces come from held-out domains.
type Pieces struct {
	docs    []Document
	domains [][]int
	// indexes of the domains seen in pretraining, then of the held-out domains; empty groups are
	// omitted
	groups   [][]int
	seed     uint64
	min, max int   // smallest and largest number of tokens in a piece
	first    int32 // the token that ends a line
	State    PiecesState
}

// NewPieces returns a stream at its start. A piece has min to max tokens, or fewer at the end of a
// document. The parameter `first` is the token that ends a line. The token `first` is also the
// input for the stream's first token.
func NewPieces(c *Corpus, heldOut []string, min, max int, first int32, seed uint64) *Pieces {
	s := &Pieces{docs: c.Documents, seed: seed, min: min, max: max, first: first}
	var seen, unseen []int
	for i, name := range c.Domains() {
		var docs []int
		for k, d := range c.Documents {
			if d.Domain == name {
				docs = append(docs, k)
			}
		}
		s.domains = append(s.domains, docs)
		if slices.Contains(heldOut, name) {
			unseen = append(unseen, i)
		} else {
			seen = append(seen, i)
		}
	}
	for _, group := range [][]int{seen, unseen} {
		if len(group) > 0 {
			s.groups = append(s.groups, group)
		}
	}
	s.State = PiecesState{Domain: -1, Last: first}
	return s
}

// Next fills targets [T] with the next tokens of the stream, and inputs [T] with the token before
// each target, also across pieces. The result `begins` is true if one of the targets begins a
// piece.
func (s *Pieces) Next(inputs, targets []int32) (begins bool) {
	st := &s.State
	for i := range targets {
		if st.Pos == st.End {
			s.begin()
			begins = true
		}
		inputs[i] = st.Last
		st.Last = s.docs[st.Doc].Token(st.Pos)
		targets[i] = st.Last
		st.Pos++
	}
	return begins
}

// begin chooses the next piece. The choice depends on the seed, the number of the piece, and the
// domain of the preceding piece.
func (s *Pieces) begin() {
	st := &s.State
	key := kernel.Key(s.seed, st.Piece)
	group := s.groups[below(kernel.Bits(key, 0), len(s.groups))]
	st.Domain = other(group, st.Domain, kernel.Bits(key, 1))
	docs := s.domains[st.Domain]
	st.Doc = docs[below(kernel.Bits(key, 2), len(docs))]
	doc := &s.docs[st.Doc]
	unit := float64(kernel.Bits(key, 3)>>11) / (1 << 53)
	size := min(doc.Len(), int(float64(s.min)*math.Pow(float64(s.max)/float64(s.min), unit)))
	st.Pos = doc.lineStart(below(kernel.Bits(key, 4), doc.Len()-size+1), s.first)
	st.End = min(st.Pos+size, doc.Len())
	st.Piece++
}

// other returns a random domain of a group. It avoids the domain `last` if the group has another
// domain.
func other(group []int, last int, random uint64) int {
	at := slices.Index(group, last)
	if at < 0 || len(group) == 1 {
		return group[below(random, len(group))]
	}
	i := below(random, len(group)-1)
	if i >= at {
		i++
	}
	return group[i]
}

// Restore sets the stream to a saved state. The error is a *StateError if the state does not fit
// this stream.
func (s *Pieces) Restore(st PiecesState) error {
	fits := st.Doc >= 0 && st.Doc < len(s.docs) && st.Domain >= -1 && st.Domain < len(s.domains) &&
		st.Pos >= 0 && st.Pos <= st.End && st.End <= s.docs[st.Doc].Len()
	if !fits {
		return &StateError{fmt.Sprintf("stream: piece %d, document %d, tokens %d to %d: outside "+
			"the text",
			st.Piece, st.Doc, st.Pos, st.End)}
	}
	s.State = st
	return nil
}
