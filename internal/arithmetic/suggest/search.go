package suggest

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Options describe a search. The zero value asks for no candidates.
type Options struct {
	N    int  // maximum number of candidates
	Unit Unit // where they end
	// Least is the minimum probability of a candidate: LeastMin (also 0) to 1.
	Least float64
	// Maximum calls of the source, and prefixes in a call; 0: CallsDefault and RowsDefault. They
	// bound the work of a search. After the last call only a prefix with at least probability
	// Likely is continued, one in each call, up to BytesMax calls.
	Calls, Rows int
	// Quick ends the search after at most one call. Proposed says that an earlier call has
	// computed likely prefixes; the search may then make no call.
	Quick, Proposed bool
	// Within is the time after which the search ends and chooses from its results; 0: no limit.
	// Without a limit the candidates do not depend on the machine.
	Within time.Duration
	// Refused are texts that were offered and typed past, so they do not come next. For units of
	// words these are words, otherwise all texts with such a beginning. The remaining texts have
	// probability 1 in total.
	Refused []string
}

const (
	LeastMin     = 0.002 // less probable prefixes save nothing
	BytesMax     = 48    // maximum size of a candidate
	CallsDefault = 6
	RowsDefault  = 4

	Likely = 0.5 // of a prefix; at most one can be likelier
)

// Candidate is a text that may come next.
type Candidate struct {
	Text string
	// Probability is that of the text; for a word, of the word with a separator behind it.
	Probability float64
	// Separator is the likeliest character after a word. It is accepted with the word, until
	// another character is typed. It is "" if the text can end anywhere, or if the likeliest
	// character is not known.
	Separator string
	// Gain is the number of keystrokes saved if the text is right. It counts the characters and
	// the probability of the separator, minus the key that accepts.
	Gain float64
}

// Found is the result of a search.
type Found struct {
	// largest saving first; each next adds most to those before
	Candidates  []Candidate
	Calls, Rows int  // of the source
	Complete    bool // neither Within nor Quick ended the search early
}

func (o Options) complete() Options {
	o.Least = max(o.Least, LeastMin)
	o.Calls, o.Rows = cmp.Or(o.Calls, CallsDefault), cmp.Or(o.Rows, RowsDefault)
	return o
}

// OneByOne returns options with the same bounds and one prefix in each call.
func (o Options) OneByOne() Options {
	o = o.complete()
	o.Calls, o.Rows = o.Calls*o.Rows, 1
	return o
}

// Search looks for candidates behind a prefix of the tree, which must not end within a character.
// If the context ends, Search returns its error.
func (t *Tree) Search(ctx context.Context, src Source, root int32, o Options) (Found, error) {
	s := search{Options: o.complete(), tree: t, root: root, began: time.Now(), rest: 1}
	s.found.Complete = true
	s.visit(root, open{p: 1, end: none})
	for {
		batch := s.next()
		if len(batch) == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return Found{}, err
		}
		if s.over() {
			s.found.Complete = false
			continue // known prefixes cost nothing
		}
		if s.found.Calls >= max(s.Calls, BytesMax) {
			continue
		}
		if s.found.Calls >= s.Calls {
			if batch[0].p < Likely {
				continue
			}
			batch = batch[:1]
		}
		t.call = t.call[:0]
		for _, x := range batch {
			t.add(x.parent, x.b)
		}
		t.guess(src, batch[0])
		t.grow(src)
		s.found.Calls++
		s.found.Rows += len(t.call)
		for i, x := range batch {
			s.visit(t.call[i].ID, x)
		}
	}
	s.choose()
	return s.found, nil
}

// guess adds the likely continuation of the likeliest prefix to a call. A long and certain text
// then takes few calls.
func (t *Tree) guess(src Source, x open) {
	if x.p < guessLeast {
		return
	}
	id := t.call[0].ID
	for i, b := range src.Guess(x.parent) {
		if i > 0 {
			id = t.add(id, b)
		} else if b != x.b {
			return
		}
	}
}

// guessLeast is the minimum probability of a prefix for which guess is worth its work.
const guessLeast = 0.1

type search struct {
	Options
	tree  *Tree
	root  int32
	began time.Time
	queue queue
	made  int // number of opened prefixes
	ends  []end
	rest  float64 // the probability of all texts that were not refused
	found Found
}

// open is a prefix that may be continued.
type open struct {
	parent int32
	b      byte
	p      float64
	order  int // order in which prefixes were found
	shape  shape
	end    int // the longest end that is a beginning of the prefix
}

// queue orders prefixes by probability, likeliest first.
type queue []open

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].p > q[j].p || q[i].p == q[j].p && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(open)) }
func (q *queue) Pop() (x any) {
	last := len(*q) - 1
	x, *q = (*q)[last], (*q)[:last]
	return x
}

// next returns the likeliest open prefixes outside the tree, at most one call's number.
func (s *search) next() (batch []open) {
	for len(batch) < s.Rows && len(s.queue) > 0 && s.queue[0].p >= s.Least*s.rest {
		x := heap.Pop(&s.queue).(open)
		if id := s.tree.Child(x.parent, x.b); id != None {
			s.visit(id, x)
		} else {
			batch = append(batch, x)
		}
	}
	return batch
}

// over reports whether the time is too short for another call, which is estimated by the mean of
// the calls so far.
func (s *search) over() bool {
	if s.found.Calls == 0 && !s.Proposed {
		return false // without a call little is found
	}
	took, calls := time.Since(s.began), time.Duration(max(1, s.found.Calls))
	return s.Quick || s.Within > 0 && took+took/calls > s.Within
}

// visit opens the prefixes behind one with a known distribution, and records candidates. With
// units of words the candidate is the prefix itself.
func (s *search) visit(id int32, x open) {
	logProbs := &s.tree.nodes[id].logProbs
	if s.Unit.ofWords() && x.shape.word && x.shape.part == 0 {
		s.endWord(x, logProbs)
	}
	if x.shape.bytes == BytesMax {
		return
	}
	least := float32(math.Log(LeastMin / x.p))
	for b, l := range logProbs {
		if l < least {
			continue
		}
		shape, ok := x.shape.extend(byte(b), s.Unit)
		if !ok {
			continue
		}
		child := open{id, byte(b), x.p * math.Exp(float64(l)), s.made, shape, x.end}
		s.made++
		if !s.Unit.ofWords() && shape.part == 0 {
			if s.refuses(child) {
				continue
			}
			s.ends = append(s.ends, end{open: child, above: x.end, gain: float64(shape.chars) - 1})
			child.end = len(s.ends) - 1
		}
		heap.Push(&s.queue, child)
	}
}

// endWord records a word that may end here.
func (s *search) endWord(x open, logProbs *[256]float32) {
	sum, most, likeliest := 0., 0., ""
	for b, l := range logProbs {
		if !separator(byte(b)) {
			continue
		}
		p := math.Exp(float64(l))
		sum += p
		if b < utf8.RuneSelf && p > most {
			likeliest, most = string(rune(b)), p
		}
	}
	if x.p *= sum; !s.refuses(x) && x.p >= LeastMin {
		gain := float64(x.shape.chars) - 1 + most/sum
		s.ends = append(s.ends, end{open: x, above: none, gain: gain, separator: likeliest})
	}
}

// refuses reports whether a candidate is refused. If so, its probability is removed from the
// total and from the ends that are its beginnings.
func (s *search) refuses(x open) bool {
	if len(s.Refused) == 0 || !slices.Contains(s.Refused, s.tree.text(s.root, x.parent, x.b)) {
		return false
	}
	s.rest = max(s.rest-x.p, LeastMin)
	for a := x.end; a != none; a = s.ends[a].above {
		s.ends[a].p -= x.p
	}
	return true
}
