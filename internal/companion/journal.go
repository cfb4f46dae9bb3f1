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

// pages is a journal of the floats, of which a text changes the same ones again and again: they are
// kept once, in pages.
type pages struct {
	numbers []int32 // of the pages that are kept
	held    [][pageFloats]float32
	kept    [pageCount]uint32 // the epoch in which each page was kept last
	epoch   uint32            // since the journal began, or since it was marked last
}

const (
	pageFloats = inputCount // so that a row of weights is one
	pageCount  = floatCount / pageFloats
)

func (j *pages) begin() {
	j.numbers, j.held = j.numbers[:0], j.held[:0]
	j.turn()
}

// turn begins an epoch: every page is kept anew.
func (j *pages) turn() {
	if j.epoch++; j.epoch == 0 {
		clear(j.kept[:])
		j.epoch = 1
	}
}

// page is a page of the floats.
func page(floats []float32, number int32) *[pageFloats]float32 {
	return (*[pageFloats]float32)(floats[number*pageFloats:])
}

// keep is called before a page of the floats changes.
func (j *pages) keep(floats []float32, number int32) {
	if j.kept[number] != j.epoch {
		j.kept[number] = j.epoch
		j.numbers = append(j.numbers, number)
		j.held = append(j.held, *page(floats, number))
	}
}

// mark returns how many pages were kept so far.
func (j *pages) mark() int {
	j.turn()
	return len(j.numbers)
}

// backTo takes the floats back to where the journal had so many pages, and keeps what they were.
func (j *pages) backTo(floats []float32, n int) {
	for i := len(j.numbers) - 1; i >= n; i-- {
		p := page(floats, j.numbers[i])
		*p, j.held[i] = j.held[i], *p
	}
}

// drop takes the floats back to where the journal had so many pages, and forgets the rest of it.
func (j *pages) drop(floats []float32, n int) {
	j.backTo(floats, n)
	j.numbers, j.held = j.numbers[:n], j.held[:n]
	j.turn()
}

// forth undoes a backTo where the journal began.
func (j *pages) forth(floats []float32) {
	for i, number := range j.numbers {
		p := page(floats, number)
		*p, j.held[i] = j.held[i], *p
	}
}

// change is what some text has changed of a state.
type change struct {
	place  place
	table  journal[uint8]
	text   journal[uint8]
	words  journal[uint32]
	floats pages
}

func (c *change) begin(s *State) {
	c.place = s.place
	c.table.begin()
	c.text.begin()
	c.words.begin()
	c.floats.begin()
}

func (c *change) back(s *State) {
	c.place, s.place = s.place, c.place
	c.table.back(s.table)
	c.text.back(s.text)
	c.words.back(s.words)
	c.floats.backTo(s.floats, 0)
}

func (c *change) forth(s *State) {
	c.place, s.place = s.place, c.place
	c.table.forth(s.table)
	c.text.forth(s.text)
	c.words.forth(s.words)
	c.floats.forth(s.floats)
}

// Mark is a place within a piece of text.
type Mark struct {
	place                      place
	table, text, words, floats int // the lengths of the journals
}

func (c *change) mark(s *State) Mark {
	return Mark{
		s.place, len(c.table.spans), len(c.text.spans), len(c.words.spans), c.floats.mark(),
	}
}

func (c *change) drop(s *State, to Mark) {
	s.place = to.place
	c.table.drop(s.table, to.table)
	c.text.drop(s.text, to.text)
	c.words.drop(s.words, to.words)
	c.floats.drop(s.floats, to.floats)
}
