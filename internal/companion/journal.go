package companion

// journal keeps what an array held before it was changed.
type journal[T any] struct {
	spans []span
	held  []T
}

// span is a part of an array.
type span struct{ at, n int32 }

func (j *journal[T]) begin() { j.spans, j.held = j.spans[:0], j.held[:0] }

// keep is called before a part of the array changes.
func (j *journal[T]) keep(array []T, at, n int) {
	j.spans = append(j.spans, span{int32(at), int32(n)})
	j.held = append(j.held, array[at:at+n]...)
}

// back takes the array back to where the journal began, and keeps what it held until now.
func (j *journal[T]) back(array []T) { j.backTo(array, 0) }

// backTo takes the array back to where the journal had so many spans. It returns where the parts
// behind them begin in what is held.
func (j *journal[T]) backTo(array []T, spans int) (end int) {
	end = len(j.held)
	for i := len(j.spans) - 1; i >= spans; i-- {
		s := j.spans[i]
		end -= int(s.n)
		exchange(array[s.at:s.at+s.n], j.held[end:])
	}
	return end
}

// drop takes the array back to where the journal had so many spans, and forgets the rest of it.
func (j *journal[T]) drop(array []T, spans int) {
	end := j.backTo(array, spans)
	j.spans, j.held = j.spans[:spans], j.held[:end]
}

// forth undoes back.
func (j *journal[T]) forth(array []T) {
	begin := 0
	for _, s := range j.spans {
		exchange(array[s.at:s.at+s.n], j.held[begin:])
		begin += int(s.n)
	}
}

// exchange exchanges the elements of a and the first ones of b: a few one by one, more in blocks.
func exchange[T any](a, b []T) {
	var block [16]T
	for len(a) >= len(block) {
		copy(block[:], a)
		copy(a[:len(block)], b)
		copy(b, block[:])
		a, b = a[len(block):], b[len(block):]
	}
	b = b[:len(a)]
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// change is what some text has changed of a state.
type change struct {
	place  place
	table  journal[uint8]
	text   journal[uint8]
	heads  journal[uint32]
	floats journal[float32]
}

func (c *change) begin(s *State) {
	c.place = s.place
	c.table.begin()
	c.text.begin()
	c.heads.begin()
	c.floats.begin()
}

func (c *change) back(s *State) {
	c.place, s.place = s.place, c.place
	c.table.back(s.table)
	c.text.back(s.text)
	c.heads.back(s.heads)
	c.floats.back(s.floats)
}

func (c *change) forth(s *State) {
	c.place, s.place = s.place, c.place
	c.table.forth(s.table)
	c.text.forth(s.text)
	c.heads.forth(s.heads)
	c.floats.forth(s.floats)
}

// Mark is a place within a piece of text.
type Mark struct {
	place                      place
	table, text, heads, floats int // spans of the journals
}

func (c *change) mark(s *State) Mark {
	return Mark{
		s.place, len(c.table.spans), len(c.text.spans), len(c.heads.spans), len(c.floats.spans),
	}
}

func (c *change) drop(s *State, to Mark) {
	s.place = to.place
	c.table.drop(s.table, to.table)
	c.text.drop(s.text, to.text)
	c.heads.drop(s.heads, to.heads)
	c.floats.drop(s.floats, to.floats)
}
