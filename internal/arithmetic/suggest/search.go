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

// Options say what to look for. The zero value asks for no candidates.
type Options struct {
	N    int  // candidates, at most
	Unit Unit // where they end
	// Least is the least probability of a candidate: LeastMin (also 0) to 1.
	Least float64
	// Calls of the source, and prefixes a call; 0: CallsDefault and RowsDefault. They bound what a
	// search computes. Behind them only a prefix that is likelier than not is continued, alone, to
	// BytesMax calls.
	Calls, Rows int
	// Quick is a search with one call at most. Proposed says that what is likely was computed in a
	// call before: no other need be made.
	Quick, Proposed bool
	// Within ends the search after this time; what was found until then is chosen from. 0: it has
	// no bound, and the candidates do not depend on the machine.
	Within time.Duration
	// Refused are texts that do not come next, because they were offered and the writer typed past
	// them: words of these units, else all texts that begin so. What remains has probability 1.
	Refused []string
}

const (
	LeastMin     = 0.002 // less probable prefixes save nothing
	BytesMax     = 48    // of a candidate
	CallsDefault = 6
	RowsDefault  = 4

	Likely = 0.5 // of a prefix; no two can be likelier
)

// Candidate is a text that may come next.
type Candidate struct {
	Text string
	// Probability is that of the text, and for a word of a separator behind it.
	Probability float64
	// Separator is the likeliest character behind a word, which whoever accepts it gets, too, until
	// another one is typed; "" if the text ends anywhere, or the likeliest is not known.
	Separator string
	// Gain is how many keystrokes it saves where it is right: its characters, and the share of
	// cases in which the separator is right, without the key that accepts it.
	Gain float64
}

// Found is what a search has found.
type Found struct {
	// the one that saves most first; then what saves most beside those before
	Candidates  []Candidate
	Calls, Rows int  // of the source
	Complete    bool // neither Within nor Quick has ended the search early
}

func (o Options) complete() Options {
	o.Least = max(o.Least, LeastMin)
	o.Calls, o.Rows = cmp.Or(o.Calls, CallsDefault), cmp.Or(o.Rows, RowsDefault)
	return o
}

// OneByOne has the same bounds, with a prefix a call.
func (o Options) OneByOne() Options {
	o = o.complete()
	o.Calls, o.Rows = o.Calls*o.Rows, 1
	return o
}

// Search looks for candidates behind a prefix that is in the tree, which does not end within a
// character. If the context ends, the error is the context's.
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
			continue // prefixes that are known cost nothing
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

// guess adds to a call what may well follow its likeliest prefix: a long text that is certain then
// takes few calls.
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

// guessLeast is the least probability of a prefix behind which a guess is worth its work.
const guessLeast = 0.1

type search struct {
	Options
	tree  *Tree
	root  int32
	began time.Time
	queue queue
	made  int // prefixes that were open
	ends  []end
	rest  float64 // the probability of all that was not refused
	found Found
}

// open is a prefix that may be continued.
type open struct {
	parent int32
	b      byte
	p      float64
	order  int // in which prefixes were met
	shape  shape
	end    int // the longest end that the prefix begins with
}

// queue has the likeliest prefix first.
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

// next returns the likeliest open prefixes that are not in the tree, as many as a call has.
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

// over reports whether there is no time for a call, which is taken to last as long as those before
// it.
func (s *search) over() bool {
	if s.found.Calls == 0 && !s.Proposed {
		return false // without a call little is found
	}
	took, calls := time.Since(s.began), time.Duration(max(1, s.found.Calls))
	return s.Quick || s.Within > 0 && took+took/calls > s.Within
}

// visit opens the prefixes behind one whose distribution is known, and notes the candidates among
// them: of words, the prefix itself.
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

// endWord notes that a word may end here.
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

// refuses reports whether a candidate is refused. Its probability goes to all others then, and
// those that it begins with lose it before.
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
