package stream

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/txl"
)

// This file searches for texts that may follow a stream's text. The stream's network and companion
// give the distribution of the byte after each prefix. The network reads many prefixes in one call,
// as rows of a tree after the chunk. The companion reads the prefixes one by one, and is restored
// after each.

// Suggester caches the prefixes that were computed for a stream's suggestions. The cached prefixes
// serve later requests until a chunk settles. Any worker may use a Suggester, but only one worker
// at a time. The zero Suggester is empty.
type Suggester struct {
	tree suggest.Tree
	rows [2]txl.Tree
	// networks contains the networks' distributions for all prefixes, 256 numbers each. Without a
	// companion, networks is empty.
	networks companion.Networks
	guesses  [][]byte // for each prefix, the text that the companion expects next
	origin   origin
}

type origin struct {
	stream, step, learnt uint64
	pending              int // number of pending tokens before the tree
	offset               int64
}

const (
	// TypedMax is the maximum size, in bytes, of the typed text between a stream's text and a
	// suggestion.
	TypedMax = 1024
	// SuggestRowsMax is the maximum number of prefixes that the network reads in one call,
	// including guessed prefixes.
	SuggestRowsMax = 32
	// proposedRows is the number of prefixes that the companion proposes. In a quick search, the
	// network reads only proposals, and their number is proposedQuick.
	proposedRows, proposedQuick = 12, 24
	// proposedCalls is the maximum number of calls of the network after the call for the proposals.
	proposedCalls = 3
	// guessBytes is the maximum length of the text that the companion expects after a prefix.
	guessBytes = 12
	// A suggester with more than keptPrefixes prefixes drops all of them.
	keptPrefixes = 2048
)

const sliceBytes = 24 // size of a slice header in bytes

// Bytes returns the bytes of memory that the suggester occupies.
func (k *Suggester) Bytes() int64 {
	bytes := k.tree.Bytes()
	for i := range k.rows {
		bytes += k.rows[i].Bytes() + 4*int64(cap(k.networks[i]))
	}
	bytes += int64(cap(k.guesses)) * sliceBytes
	for _, guess := range k.guesses {
		bytes += int64(cap(guess))
	}
	return bytes
}

// Suggests returns an error if the stream cannot make suggestions.
func (s *Stream) Suggests() error {
	switch {
	case s.OfWords():
		return fmt.Errorf("model %s is a model of words, expected a model of bytes", s.model.Name)
	case s.Cache != nil:
		return fmt.Errorf("method is %s, expected a method without a cache", Cache)
	}
	return nil
}

// Suggest searches for texts that may follow a stream's text and a typed text of at most TypedMax
// bytes. If the two texts together end within a character, Suggest returns no texts. The stream
// does not change. The suggester keeps computed prefixes for the next call. Do not call Suggest
// between Score and Commit. If the context ends, Suggest returns the context's error.
func (w *Worker) Suggest(
	ctx context.Context, s *Stream, k *Suggester, typed []byte, o suggest.Options,
) (suggest.Found, error) {
	if err := s.Suggests(); err != nil {
		return suggest.Found{}, err
	}
	if len(typed) > TypedMax {
		return suggest.Found{}, fmt.Errorf("the typed text has %d bytes, expected at most "+
			"%d", len(typed),
			TypedMax)
	}
	if !suggest.Whole(s.tail(typed)) {
		return suggest.Found{}, nil
	}
	began := time.Now()
	if o.Unit == suggest.Auto {
		o.Unit = suggest.UnitOf(s.recent(typed))
	}
	w.resume(s)
	src := source{w: w, s: s, k: k}
	src.begin(s)
	defer w.stay()
	root := src.reach(typed)
	switch {
	case w.model.Uniform: // Without a network, a call with many prefixes saves no time.
		o = o.OneByOne()
		o.Quick = false
	case s.Companion != nil && o.Least < suggest.Likely:
		if err := src.propose(ctx, root, o); err != nil {
			return suggest.Found{}, err
		}
		o.Proposed, o.Calls = true, cmp.Or(o.Calls, proposedCalls)
	}
	if o.Within > 0 {
		took := time.Since(began)
		o.Within = max(1, o.Within-took)
		o.Quick = o.Quick || o.Proposed && o.Within < took/time.Duration(max(1, src.calls))
	}
	o.Rows = min(o.Rows, SuggestRowsMax-guessBytes)
	found, err := k.tree.Search(ctx, &src, root, o)
	found.Calls, found.Rows = src.calls, src.grown
	return found, err
}

// Costs returns the negative log-likelihoods, in nats, of texts that may follow a stream's text. Up
// to rounding, a Frozen copy that reads the texts has the same costs. Common beginnings are
// computed once. The stream does not change. A text may end anywhere, also within a character. The
// result rows is the number of computed prefixes. If the context ends, Costs returns the context's
// error.
func (w *Worker) Costs(
	ctx context.Context, s *Stream, k *Suggester, texts [][]byte,
) (nats []float64, rows int, err error) {
	if err := s.Suggests(); err != nil {
		return nil, 0, err
	}
	w.resume(s)
	src := source{w: w, s: s, k: k}
	src.begin(s)
	defer w.stay()
	root := src.reach(nil)
	for _, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, src.grown, err
		}
		nats = append(nats, k.tree.Cost(&src, root, text, SuggestRowsMax))
	}
	return nats, src.grown, nil
}

// recent returns the end of the stream's text, as far as the stream keeps its text, followed by the
// typed text.
func (s *Stream) recent(typed []byte) []byte {
	if s.Companion == nil {
		return append(bytesOf(s.Pending), typed...)
	}
	return append(s.Companion.Recent(suggest.AutoBytes), typed...)
}

// tail returns the last bytes of the stream's text, followed by the last bytes of the typed text.
// The result includes the whole last character.
func (s *Stream) tail(typed []byte) []byte {
	text := append([]byte{byte(s.Last)}, bytesOf(s.Pending[max(0, len(s.Pending)-3):])...)
	if s.Companion != nil && s.held == nil {
		text = s.Companion.Recent(3)
	}
	return append(text, typed[max(0, len(typed)-3):]...)
}

type source struct {
	w *Worker
	s *Stream
	k *Suggester

	calls, grown int

	// Three prefixes in the tree: `textEnds` is the end of the stream's text, `at` is the root of
	// the search, and `here` is the companion's position.
	textEnds, at, here int32
	there              bool
	text, root         companion.Mark
	path               []int32

	rows, parents, tokens []int32
}

func (src *source) begin(s *Stream) {
	w, k := src.w, src.k
	if k.tree.Room() > keptPrefixes {
		*k = Suggester{}
	}
	w.setOut(s, Lesson{})
	if w.along.companion != nil {
		src.text = w.counts.Mark(w.along.companion)
	}
	if w.growers[0] == nil && !w.model.Uniform {
		w.growers[0] = txl.NewGrower(w.seg, SuggestRowsMax)
	}
	if w.growers[1] == nil && s.StaticMemory != nil && src.networks() > 1 {
		w.growers[1] = txl.NewGrowerBeside(w.growers[0])
	}
	here := origin{s.id, s.Step, s.learnt, k.origin.pending, s.Offset()}
	moved := here.offset != k.origin.offset
	k.origin.offset = here.offset
	known := false
	// A skipped line changes the companion, so the tree is no longer valid.
	if here == k.origin && !(moved && s.held != nil) {
		id, length := k.tree.Follow(bytesOf(s.Pending[k.origin.pending:]))
		src.textEnds, known = id, id != suggest.None && length == len(s.Pending)-k.origin.pending
	}
	if !known {
		k.tree.Reset()
		here.pending, src.textEnds = len(s.Pending), suggest.None
		k.origin = here
	}
}

// reach makes the end of the typed text the root of the search. It drops all prefixes that do not
// begin with the typed text.
func (src *source) reach(typed []byte) (root int32) {
	tree, s := &src.k.tree, src.s
	if src.textEnds == suggest.None {
		src.textEnds = tree.Extend(src, suggest.None, nil, SuggestRowsMax)
	}
	text := append(bytesOf(s.Pending[src.k.origin.pending:]), typed...)
	from, length := tree.Follow(text)
	src.at = from
	root = tree.Extend(src, from, text[length:], SuggestRowsMax)
	tree.Keep(root)
	src.at, src.there = root, false
	return root
}

func bytesOf(tokens []int32) []byte {
	text := make([]byte, len(tokens))
	for i, id := range tokens {
		text[i] = byte(id)
	}
	return text
}

// networks returns how many networks the source reads: the companion may mix two.
func (src *source) networks() int {
	if src.s.Companion == nil {
		return 1
	}
	return src.s.Companion.Settings().Networks
}

// Grow implements suggest.Source.
func (src *source) Grow(of []suggest.Prefix) {
	w, s, k := src.w, src.s, src.k
	src.calls++
	src.grown += len(of)
	src.read(of)
	for i, p := range of {
		if s.Companion == nil {
			src.network(0, i, p.LogProbs)
			continue
		}
		src.keep(i, p.ID)
		counts := w.along.companion
		// For the prefix without a parent, the companion is already at the right place.
		if p.Parent != suggest.None {
			src.goTo(p.ID)
		}
		w.counts.Distribution(counts, src.of(p.ID), p.LogProbs)
		k.guesses[p.ID] = counts.Expected(k.guesses[p.ID][:0], guessBytes)
	}
}

// Guess implements suggest.Source. It returns the text that the companion expects after the prefix.
func (src *source) Guess(id int32) []byte {
	// Without a network, a guess saves no time.
	if src.s.Companion == nil || src.w.model.Uniform {
		return nil
	}
	return src.k.guesses[id]
}

func (src *source) read(of []suggest.Prefix) {
	w, s, k := src.w, src.s, src.k
	if w.model.Uniform {
		return
	}
	src.rows, src.parents, src.tokens = src.rows[:0], src.parents[:0], src.tokens[:0]
	for _, p := range of {
		token := int32(p.Byte)
		if p.Parent == suggest.None {
			token = s.Last
			if n := k.origin.pending; n > 0 {
				token = s.Pending[n-1]
			}
		}
		src.rows, src.tokens = append(src.rows, p.ID), append(src.tokens, token)
		src.parents = append(src.parents, p.Parent)
	}
	for i, seg := range []*txl.Segment{w.seg, w.base}[:src.networks()] {
		w.growers[i].Begin(seg, k.origin.pending)
		w.growers[i].Grow(w.Exec, &k.rows[i], src.rows, src.parents, src.tokens)
	}
}

// network writes log-probabilities [256] to logProbs: network n's distribution of the byte after
// the i-th prefix of a call.
func (src *source) network(n, i int, logProbs []float32) {
	w := src.w
	if w.model.Uniform {
		fill(logProbs, -w.uniform())
		return
	}
	w.growers[n].LogProbs(i, logProbs)
	if n == 0 {
		w.orUniform(src.s, logProbs)
	}
}

func (src *source) keep(i int, id int32) {
	for int(id) >= len(src.k.guesses) {
		src.k.guesses = append(src.k.guesses, nil)
	}
	for n := range src.networks() {
		all := &src.k.networks[n]
		if more := 256*(int(id)+1) - len(*all); more > 0 {
			*all = append(*all, make([]float32, more)...)
		}
		src.network(n, i, (*all)[256*id:][:256])
	}
}

func (src *source) of(id int32) (networks companion.Networks) {
	for n := range src.networks() {
		networks[n] = src.k.networks[n][256*id:][:256]
	}
	return networks
}

// goTo moves the companion to a prefix that begins with the root's text.
func (src *source) goTo(id int32) {
	w, counts := src.w, src.w.along.companion
	if !src.there {
		w.counts.Drop(counts, src.text)
		src.goOn(src.textEnds, src.at)
		src.root, src.here, src.there = w.counts.Mark(counts), src.at, true
	}
	from := id
	for from != src.here && from != src.at {
		from, _ = src.k.tree.At(from)
	}
	if from != src.here {
		w.counts.Drop(counts, src.root)
	}
	src.goOn(from, id)
	src.here = id
}

// goOn advances the companion from prefix `from` to prefix `to`, which must begin with `from`.
func (src *source) goOn(from, to int32) {
	src.path = src.path[:0]
	for id := to; id != from; id, _ = src.k.tree.At(id) {
		src.path = append(src.path, id)
	}
	for i := len(src.path) - 1; i >= 0; i-- {
		parent, b := src.k.tree.At(src.path[i])
		src.w.counts.Score(src.w.along.companion, src.of(parent), b)
	}
}
