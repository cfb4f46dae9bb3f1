// Package suggest finds texts that a writer is likely to type next, each with its probability:
// words, or texts that end anywhere. It knows bytes and distributions, but no networks.
//
// The search over bytes goes best first. It continues the likeliest prefixes, many in one call,
// and drops improbable ones. Candidates are chosen by the keystrokes that they save on average. A
// Tree keeps the prefixes, so that the search after the next key starts with them.
package suggest

// Source computes the distributions of the byte behind prefixes.
type Source interface {
	// Grow sets the LogProbs of some prefixes. Each parent is from an earlier call or precedes
	// its child.
	Grow(of []Prefix)
	// Guess returns bytes that are likely to follow a grown prefix. The search then computes them
	// in the same call.
	Guess(id int32) []byte
}

// Prefix is a text behind the origin of a tree: its parent's text and one byte.
type Prefix struct {
	// ID numbers the present prefixes of a tree with small numbers, which are reused. The origin,
	// the prefix without bytes, has the parent None.
	ID, Parent int32
	Byte       byte
	// LogProbs are the natural logarithms of the probabilities [256] of the byte behind the
	// prefix.
	LogProbs []float32
}

// None is the ID of no prefix.
const None = -1

// Tree keeps prefixes whose distributions are known. The zero Tree is empty.
type Tree struct {
	nodes []node
	free  []int32 // unused nodes
	call  []Prefix
}

// node is a prefix. Its children form a linked list.
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

// LogProbs returns the natural logarithms of the probabilities [256] of the byte behind a prefix.
func (t *Tree) LogProbs(id int32) []float32 { return t.nodes[id].logProbs[:] }

// Child returns the prefix with one more byte, or None if the tree lacks it. Child of None is
// None.
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

// Follow returns the longest beginning of a text that is a prefix in the tree, and its length.
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

// Extend grows the prefixes along a text behind a prefix, at most rows in a call. It returns the
// last prefix. For None it grows the origin first.
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

// Cost returns the negative log-likelihood, in nats, of a text behind a prefix. It grows the
// missing prefixes, at most rows in a call.
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

// Graft grows the prefixes of another tree behind a prefix, in one call of at most rows. Prefixes
// must never have been removed from the other tree: parents then come first.
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

// add adds a prefix to the present call.
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

// grow executes the present call.
func (t *Tree) grow(src Source) {
	for i := range t.call {
		t.call[i].LogProbs = t.nodes[t.call[i].ID].logProbs[:]
	}
	src.Grow(t.call)
}

// Keep removes all prefixes except the beginnings of a prefix and those that begin with it.
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

// remove removes a prefix and all that begin with it.
func (t *Tree) remove(id int32) {
	for c := t.nodes[id].child; c != None; c = t.nodes[c].next {
		t.remove(c)
	}
	t.free = append(t.free, id)
}
