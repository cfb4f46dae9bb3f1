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

// Options describe a search. The zero value requests no candidates.
type Options struct {
	N    int  // maximum number of candidates
	Unit Unit // where candidates end
	// Least is the minimum probability of a candidate, from LeastMin to 1; 0 means LeastMin.
	Least float64
	// Calls is the maximum number of calls of the source, and Rows the maximum number of prefixes
	// in a call; 0 means CallsDefault and RowsDefault. After these calls, the search continues only
	// a prefix whose probability is at least Likely. It then computes one prefix per call, up to
	// BytesMax calls in total.
	Calls, Rows int
	// If Quick is true, the search makes at most one call of the source. If Proposed is true, an
	// earlier call already computed likely prefixes. The search may then make no call.
	Quick, Proposed bool
	// Within limits the time of the search; 0 means no limit. At the limit, the search returns the
	// best candidates found so far. Without a limit, the candidates do not depend on the speed of
	// the machine.
	Within time.Duration
	// Refused are suggested texts that the writer did not accept; the search does not suggest them
	// again. If candidates are words, the refused words are excluded. Otherwise all texts that
	// begin with a refused text are excluded. The probabilities of the remaining texts are scaled
	// to add up to 1.
	Refused []string
}

const (
	LeastMin     = 0.002 // minimum probability of a prefix; less probable prefixes save no keys
	BytesMax     = 48    // maximum size of a candidate in bytes
	CallsDefault = 6
	RowsDefault  = 4

	// Likely is the minimum probability of a prefix that the search continues after Options.Calls
	// calls.
	Likely = 0.5
)

// Candidate is a text that may come next.
type Candidate struct {
	Text string
	// Probability is the probability of the text or, for a word, of the word followed by a
	// separator.
	Probability float64
	// Separator is the likeliest character after a word, and is accepted together with the word. If
	// the writer then types another character, that character replaces the separator. Separator is
	// "" if candidates can end anywhere, or if the likeliest character is not known.
	Separator string
	// Gain is the number of keystrokes saved if the text is right. It is the number of characters,
	// plus the probability of the separator, minus 1 for the key that accepts the text.
	Gain float64
}

// Found is the result of a search.
type Found struct {
	// Candidates are in the order of choice: each next candidate adds the most to the mean saving.
	Candidates  []Candidate
	Calls, Rows int  // numbers of calls of the source and of prefixes in these calls
	Complete    bool // false if Within or Quick ended the search early
}

func (o Options) complete() Options {
	o.Least = max(o.Least, LeastMin)
	o.Calls, o.Rows = cmp.Or(o.Calls, CallsDefault), cmp.Or(o.Rows, RowsDefault)
	return o
}

// OneByOne returns options with one prefix per call and an unchanged total number of prefixes.
func (o Options) OneByOne() Options {
	o = o.complete()
	o.Calls, o.Rows = o.Calls*o.Rows, 1
	return o
}

// Search looks for candidates that may follow a prefix of the tree. The prefix must not end within
// a character. If the context ends, Search returns the context's error.
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
			// The search makes no more calls, but still visits prefixes that the tree contains.
			continue
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

// guess adds the expected continuation of the likeliest prefix to the next call of the source. A
// long, predictable text then needs few calls.
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

const guessLeast = 0.1

type search struct {
	Options
	tree  *Tree
	root  int32
	began time.Time
	queue queue
	made  int
	ends  []end
	rest  float64 // total probability of the texts that are not refused
	found Found
}

type open struct {
	parent int32
	b      byte
	p      float64
	order  int
	shape  shape
	end    int // index of the longest end whose text is a beginning of the prefix, or none
}

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

// next returns the likeliest open prefixes that the tree lacks, at most s.Rows. It visits likelier
// prefixes that the tree contains.
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

// over reports whether the search must end before the next call: the search is quick, or a call of
// average duration would exceed the time limit.
func (s *search) over() bool {
	if s.found.Calls == 0 && !s.Proposed {
		return false // without a first call, the search would find little
	}
	took, calls := time.Since(s.began), time.Duration(max(1, s.found.Calls))
	return s.Quick || s.Within > 0 && took+took/calls > s.Within
}

// visit records the candidates at a prefix whose next byte has a known distribution. It then queues
// the prefixes with one more byte. If candidates are words, the only candidate is the prefix
// itself.
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

// endWord records the prefix as a candidate: a word that ends here if a separator follows.
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

// refuses reports whether a candidate is refused. If so, its probability is subtracted from s.rest
// and from the ends whose texts are beginnings of the candidate.
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
