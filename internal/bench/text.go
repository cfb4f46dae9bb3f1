package bench

import (
	"fmt"
	"math"
	"sort"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// language is an endless text that is always the same: letters, or words of which the one with id i
// has a probability proportional to (i+1)^-zipfExponent (Zipf's law).
type language struct {
	tokenizer tokenizer.Tokenizer
	upTo      []float64 // probability of the ids up to each one; nil: the text is letters
}

// zipfExponent makes words as rare as those of long texts are: of a vocabulary of 267,735 words,
// 89 in 100 words of the text are among the 20,000 most frequent.
const zipfExponent = 1.1

// newLanguage returns a text in the tokens of a model.
func newLanguage(t tokenizer.Tokenizer) language {
	l := language{tokenizer: t}
	if _, words := t.(*tokenizer.Words); !words {
		return l
	}
	l.upTo = make([]float64, t.Vocab())
	sum := 0.0
	for i := range l.upTo {
		sum += math.Pow(float64(i+1), -zipfExponent)
		l.upTo[i] = sum
	}
	for i := range l.upTo {
		l.upTo[i] /= sum
	}
	return l
}

// token is the text's i'th token.
func (l language) token(i uint64) int32 {
	bits := kernel.Bits(1, i)
	if l.upTo == nil {
		return int32('a' + bits%26)
	}
	at := float64(bits>>11) / (1 << 53)
	return int32(sort.Search(len(l.upTo)-1, func(id int) bool { return at < l.upTo[id] }))
}

// shares are the parts of the text's tokens in each of the clusters; nil for letters.
func (l language) shares(clusters []txl.Cluster) (shares []float64) {
	if l.upTo == nil {
		return nil
	}
	end, before := 0, 0.0
	for _, c := range clusters {
		end += c.Tokens
		shares = append(shares, l.upTo[end-1]-before)
		before = l.upTo[end-1]
	}
	return shares
}

// text is the beginning of the text: n tokens, the last of which is the token after which texts
// begin, so that nothing of a word is pending behind it.
func (l language) text(n int) (text []byte) {
	last := l.tokenizer.Start()
	for i := range n {
		id := l.token(uint64(i))
		if i == n-1 {
			id = l.tokenizer.Start()
		}
		text = l.tokenizer.Spell(text, last, id)
		last = id
	}
	return text
}

// unit is what speeds of text are counted in.
func (l language) unit() string {
	if l.upTo == nil {
		return chars
	}
	return tokens
}

// text takes a step through segments of text, one after the other: what a stream's worker or a
// step of training does, phase by phase.
type text struct {
	stream.Step
	language
	size     segment
	at       uint64  // tokens read
	in, next []int32 // inputs and targets [rows,batch]
	nll      []float32
}

// newText returns text under the static network, with a full memory.
func (b *bench) newText(size segment) *text {
	n := size.batch * size.rows
	lm := b.model.LM
	t := &text{
		Step: stream.Step{
			Exec: b.x, Network: lm,
			Segment: txl.NewSegment(lm.Config, size.batch, size.rows),
			Memory:  txl.NewMemory(lm.Config, size.batch),
		},
		language: b.language, size: size,
		in: make([]int32, n), next: make([]int32, n), nll: make([]float32, n),
	}
	for t.Memory.Len < size.memory && b.ctx.Err() == nil {
		t.Begin()
		t.score()
		t.Remember()
	}
	return t
}

// score scores the next segment, which has begun.
func (t *text) score() {
	for i := range t.next {
		t.next[i] = t.token(t.at)
		t.at++
	}
	copy(t.in[t.size.batch:], t.next) // the first row's inputs do not matter
	t.Score(t.in, t.next, t.nll)
}

// task is a row whose speed is counted in characters, or in tokens that are words.
func (t *text) task(section, what string, w work) task {
	s := t.size
	shape := fmt.Sprintf("%d after %d", s.rows, s.memory)
	if s.batch > 1 {
		shape = fmt.Sprintf("%dx%s", s.batch, shape)
	}
	return task{
		section: section, what: what, shape: shape, work: w,
		amount: float64(s.batch * s.rows), unit: t.unit(),
	}
}
