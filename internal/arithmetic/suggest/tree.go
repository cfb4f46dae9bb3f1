// Package suggest finds texts that a writer is likely to type next, each with its probability. A
// text is a word or may end anywhere. The package works on bytes and their distributions, and does
// not depend on networks.
//
// The search is best-first: it continues the likeliest prefixes, many in one call, and drops
// improbable prefixes. It chooses candidates by the keystrokes that they save on average. A Tree
// caches prefixes for the search after the next key.
package suggest

// Source computes distributions of the byte after a prefix.
type Source interface {
	// Grow sets the LogProbs of some prefixes. The parent of each prefix was in an earlier call, or
	// comes earlier in this call.
	Grow(of []Prefix)
	// Guess returns bytes that are likely to follow a prefix, which Grow has computed before. The
	// search adds these bytes to its next call of Grow.
	Guess(id int32) []byte
}

// Prefix is a text that follows the origin of a tree. The text consists of the parent's text and
// one more byte.
type Prefix struct {
	// ID is a small number that identifies the prefix in its tree. After the prefix is removed,
	// another prefix may get the ID. The origin is the prefix without bytes; its parent is None.
	ID, Parent int32
	Byte       byte
	// LogProbs contains the natural logarithms of the probabilities [256] of the byte after the
	// prefix.
	LogProbs []float32
}

// None is an ID that no prefix has.
const None = -1

// Tree keeps prefixes for which the distribution of the next byte is known. The zero Tree is empty.
type Tree struct {
	nodes []node
	free  []int32
	call  []Prefix
}

type node struct {
	parent, child, next int32
	b                   byte
	logProbs            [256]float32
}

// Reset empties the tree.
func (t *Tree) Reset() { t.nodes, t.free = t.nodes[:0], t.free[:0] }

// Room returns the number of prefixes that the tree has memory for.
func (t *Tree) Room() int { return cap(t.nodes) }

// Bytes returns the bytes of memory that the tree occupies.
func (t *Tree) Bytes() int64 { return int64(t.Room()) * nodeBytes }

const nodeBytes = 4*3 + 4 + 4*256

// At returns the parent and the last byte of a prefix.
func (t *Tree) At(id int32) (parent int32, b byte) { return t.nodes[id].parent, t.nodes[id].b }

// LogProbs returns the natural logarithms of the probabilities [256] of the byte after a prefix.
func (t *Tree) LogProbs(id int32) []float32 { return t.nodes[id].logProbs[:] }

// Child returns the prefix id extended by byte b, or None if the tree lacks that prefix. If id is
// None, Child returns None.
func (t *Tree) Child(id int32, b byte) int32 {
	if id == None {
		return None
	}
	for c := t.nodes[id].child; c != None; c = t.nodes[c].next {
		if t.nodes[c].b == b {
			return c
		}
	}
	return None
}

// Follow returns the longest beginning of a text that is a prefix in the tree, and its length in
// bytes.
func (t *Tree) Follow(text []byte) (id int32, length int) {
	if len(t.nodes) == 0 {
		return None, 0
	}
	for ; length < len(text); length++ {
		c := t.Child(id, text[length])
		if c == None {
			break
		}
		id = c
	}
	return id, length
}

// Extend adds all prefixes along a text that follows the prefix id. Each call of the source
// computes at most `rows` prefixes. Extend returns the last prefix. If id is None, Extend first
// adds the origin.
func (t *Tree) Extend(src Source, id int32, text []byte, rows int) (last int32) {
	for id == None || len(text) > 0 {
		t.call = t.call[:0]
		for len(t.call) < rows && (id == None || len(text) > 0) {
			if id == None {
				id = t.add(None, 0)
				continue
			}
			id = t.add(id, text[0])
			text = text[1:]
		}
		t.grow(src)
	}
	return id
}

// Cost returns the negative log-likelihood, in nats, of a text that follows the prefix id. Missing
// prefixes are added to the tree; each call of the source computes at most `rows` of them.
func (t *Tree) Cost(src Source, id int32, text []byte, rows int) (nats float64) {
	known, last := id, max(0, len(text)-1)
	length := 0
	for ; length < last; length++ {
		c := t.Child(known, text[length])
		if c == None {
			break
		}
		known = c
	}
	t.Extend(src, known, text[length:last], rows)
	for _, b := range text {
		nats -= float64(t.nodes[id].logProbs[b])
		id = t.Child(id, b)
	}
	return nats
}

// Graft adds the prefixes of another tree after the prefix id: at most `rows` prefixes, in one call
// of the source. No prefix may have been removed from the other tree, because its parents must have
// smaller IDs than their children.
func (t *Tree) Graft(src Source, id int32, of *Tree, rows int) {
	t.call = t.call[:0]
	at := make([]int32, len(of.nodes))
	for i, n := range of.nodes {
		if n.parent == None {
			at[i] = id
			continue
		}
		at[i] = t.Child(at[n.parent], n.b)
		if at[i] == None && at[n.parent] != None && len(t.call) < rows {
			at[i] = t.add(at[n.parent], n.b)
		}
	}
	if len(t.call) > 0 {
		t.grow(src)
	}
}

// add adds a prefix to the tree and to the next call of the source.
func (t *Tree) add(parent int32, b byte) (id int32) {
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		id = int32(len(t.nodes))
		t.nodes = append(t.nodes, node{})
	}
	n := &t.nodes[id]
	n.parent, n.child, n.next, n.b = parent, None, None, b
	if parent != None {
		of := &t.nodes[parent]
		n.next, of.child = of.child, id
	}
	t.call = append(t.call, Prefix{ID: id, Parent: parent, Byte: b})
	return id
}

func (t *Tree) grow(src Source) {
	for i := range t.call {
		t.call[i].LogProbs = t.nodes[t.call[i].ID].logProbs[:]
	}
	src.Grow(t.call)
}

// Keep keeps the prefix id, its beginnings, and the prefixes that begin with it. All other prefixes
// are removed.
func (t *Tree) Keep(id int32) {
	for {
		of := t.nodes[id].parent
		if of == None {
			return
		}
		for c := t.nodes[of].child; c != None; {
			next := t.nodes[c].next
			if c != id {
				t.remove(c)
			}
			c = next
		}
		t.nodes[of].child, t.nodes[id].next = id, None
		id = of
	}
}

func (t *Tree) remove(id int32) {
	for c := t.nodes[id].child; c != None; c = t.nodes[c].next {
		t.remove(c)
	}
	t.free = append(t.free, id)
}
