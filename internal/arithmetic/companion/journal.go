package companion

// journal records old values of an array's elements, to undo changes.
type journal[T any] struct {
	at   []int32
	held []T
}

func (j *journal[T]) begin() { j.at, j.held = j.at[:0], j.held[:0] }

func (j *journal[T]) keep(array []T, at int) {
	j.at, j.held = append(j.at, int32(at)), append(j.held, array[at])
}

// backTo undoes all changes after the first n entries of the journal. The journal then contains the
// newer values, so that forth can restore them.
func (j *journal[T]) backTo(array []T, n int) {
	for i := len(j.at) - 1; i >= n; i-- {
		array[j.at[i]], j.held[i] = j.held[i], array[j.at[i]]
	}
}

// drop undoes all changes after the first n entries of the journal, and removes their entries.
func (j *journal[T]) drop(array []T, n int) {
	j.backTo(array, n)
	j.at, j.held = j.at[:n], j.held[:n]
}

// forth undoes the call backTo(array, 0).
func (j *journal[T]) forth(array []T) {
	for i, at := range j.at {
		array[at], j.held[i] = j.held[i], array[at]
	}
}

type tableJournal struct {
	at   []int32
	held []bucket
}

func (j *tableJournal) begin() { j.at, j.held = j.at[:0], j.held[:0] }

func (j *tableJournal) keep(t table, at int) {
	j.at, j.held = append(j.at, int32(at)), append(j.held, *t.at(at))
}

func (j *tableJournal) backTo(t table, n int) {
	for i := len(j.at) - 1; i >= n; i-- {
		j.exchange(t, i)
	}
}

func (j *tableJournal) drop(t table, n int) {
	j.backTo(t, n)
	j.at, j.held = j.at[:n], j.held[:n]
}

func (j *tableJournal) forth(t table) {
	for i := range j.at {
		j.exchange(t, i)
	}
}

func (j *tableJournal) exchange(t table, i int) {
	b := t.at(int(j.at[i]))
	*b, j.held[i] = j.held[i], *b
}

// pages is a journal of changes to the floats, in pages of pageFloats elements. A text changes the
// same floats many times, so a page is recorded only once per epoch.
type pages struct {
	numbers []int32
	held    [][pageFloats]float32
	kept    [pageCount]uint32
	epoch   uint32 // increases when the journal is emptied and at each mark
}

const (
	pageFloats = inputCount // one row of weights
	pageCount  = floatCount / pageFloats
)

func (j *pages) begin() {
	j.numbers, j.held = j.numbers[:0], j.held[:0]
	j.turn()
}

// turn begins an epoch. Every page is recorded again before its next change.
func (j *pages) turn() {
	if j.epoch++; j.epoch == 0 {
		clear(j.kept[:])
		j.epoch = 1
	}
}

func page(floats []float32, number int32) *[pageFloats]float32 {
	return (*[pageFloats]float32)(floats[number*pageFloats:])
}

func (j *pages) keep(floats []float32, number int32) {
	if j.kept[number] != j.epoch {
		j.kept[number] = j.epoch
		j.numbers = append(j.numbers, number)
		j.held = append(j.held, *page(floats, number))
	}
}

// mark begins an epoch, and returns the number of recorded pages.
func (j *pages) mark() int {
	j.turn()
	return len(j.numbers)
}

func (j *pages) backTo(floats []float32, n int) {
	for i := len(j.numbers) - 1; i >= n; i-- {
		p := page(floats, j.numbers[i])
		*p, j.held[i] = j.held[i], *p
	}
}

func (j *pages) drop(floats []float32, n int) {
	j.backTo(floats, n)
	j.numbers, j.held = j.numbers[:n], j.held[:n]
	j.turn()
}

func (j *pages) forth(floats []float32) {
	for i, number := range j.numbers {
		p := page(floats, number)
		*p, j.held[i] = j.held[i], *p
	}
}

type change struct {
	place  place
	table  tableJournal
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
	c.table.backTo(s.table, 0)
	c.text.backTo(s.text, 0)
	c.words.backTo(s.words, 0)
	c.floats.backTo(s.floats, 0)
}

func (c *change) forth(s *State) {
	c.place, s.place = s.place, c.place
	c.table.forth(s.table)
	c.text.forth(s.text)
	c.words.forth(s.words)
	c.floats.forth(s.floats)
}

// Mark is a position within a piece of text, to which Drop can return.
type Mark struct {
	place                      place
	table, text, words, floats int // lengths of the journals at the mark
}

func (c *change) mark(s *State) Mark {
	return Mark{
		s.place, len(c.table.at), len(c.text.at), len(c.words.at), c.floats.mark(),
	}
}

func (c *change) drop(s *State, to Mark) {
	s.place = to.place
	c.table.drop(s.table, to.table)
	c.text.drop(s.text, to.text)
	c.words.drop(s.words, to.words)
	c.floats.drop(s.floats, to.floats)
}
