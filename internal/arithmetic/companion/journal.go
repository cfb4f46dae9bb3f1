package companion

// journal records the old values of an array's elements.
type journal[T any] struct {
	at   []int32
	held []T
}

func (j *journal[T]) begin() { j.at, j.held = j.at[:0], j.held[:0] }

// keep records an element before it changes.
func (j *journal[T]) keep(array []T, at int) {
	j.at, j.held = append(j.at, int32(at)), append(j.held, array[at])
}

// backTo restores the array to the state at journal length n. The journal then holds the newer
// values.
func (j *journal[T]) backTo(array []T, n int) {
	for i := len(j.at) - 1; i >= n; i-- {
		array[j.at[i]], j.held[i] = j.held[i], array[j.at[i]]
	}
}

// drop restores the array to the state at journal length n, and removes the entries from there on.
func (j *journal[T]) drop(array []T, n int) {
	j.backTo(array, n)
	j.at, j.held = j.at[:n], j.held[:n]
}

// forth undoes backTo(array, 0).
func (j *journal[T]) forth(array []T) {
	for i, at := range j.at {
		array[at], j.held[i] = j.held[i], array[at]
	}
}

// tableJournal is a journal of the buckets of a table.
type tableJournal struct {
	at   []int32
	held []bucket
}

func (j *tableJournal) begin() { j.at, j.held = j.at[:0], j.held[:0] }

// keep records a bucket before it changes.
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

// pages is a journal of the floats, in pages of pageFloats. A text changes the same floats many
// times, so a page is recorded only once in an epoch.
type pages struct {
	numbers []int32 // numbers of the recorded pages
	held    [][pageFloats]float32
	kept    [pageCount]uint32 // the epoch in which each page was last recorded
	epoch   uint32            // a new one begins with the journal and with each mark
}

const (
	pageFloats = inputCount // one row of weights
	pageCount  = floatCount / pageFloats
)

func (j *pages) begin() {
	j.numbers, j.held = j.numbers[:0], j.held[:0]
	j.turn()
}

// turn begins an epoch, in which every page is recorded again.
func (j *pages) turn() {
	if j.epoch++; j.epoch == 0 {
		clear(j.kept[:])
		j.epoch = 1
	}
}

// page returns a page of the floats.
func page(floats []float32, number int32) *[pageFloats]float32 {
	return (*[pageFloats]float32)(floats[number*pageFloats:])
}

// keep records a page of the floats before it changes.
func (j *pages) keep(floats []float32, number int32) {
	if j.kept[number] != j.epoch {
		j.kept[number] = j.epoch
		j.numbers = append(j.numbers, number)
		j.held = append(j.held, *page(floats, number))
	}
}

// mark returns the number of recorded pages.
func (j *pages) mark() int {
	j.turn()
	return len(j.numbers)
}

// backTo restores the floats to the state at journal length n. The journal then holds the newer
// values.
func (j *pages) backTo(floats []float32, n int) {
	for i := len(j.numbers) - 1; i >= n; i-- {
		p := page(floats, j.numbers[i])
		*p, j.held[i] = j.held[i], *p
	}
}

// drop restores the floats to the state at journal length n, and removes the entries from there on.
func (j *pages) drop(floats []float32, n int) {
	j.backTo(floats, n)
	j.numbers, j.held = j.numbers[:n], j.held[:n]
	j.turn()
}

// forth undoes backTo(floats, 0).
func (j *pages) forth(floats []float32) {
	for i, number := range j.numbers {
		p := page(floats, number)
		*p, j.held[i] = j.held[i], *p
	}
}

// change records what a text has changed in a state.
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

// Mark is a position within a piece of text.
type Mark struct {
	place                      place
	table, text, words, floats int // the lengths of the journals
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
