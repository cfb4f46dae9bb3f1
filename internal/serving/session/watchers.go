package session

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Event is a report of Watch. One field is set; no field is set if nothing has happened for a
// while.
type Event struct {
	Start  *WatchStart
	Chunk  *Chunk // Lines may be empty if WatchOptions.Incidents is set
	Update *Update
	Gap    *Gap
}

// WatchStart describes the session at the beginning of a watch.
type WatchStart struct {
	Info
	// the offset at which the session's lines begin; nil if the session has no lines
	LinesFrom *int64
}

// Gap is a range of text whose events the caller missed, because the caller read too slowly or
// started too late.
type Gap struct {
	From, To int64
	Events   int // the number of dropped events; 0 if the number is not known
}

func (c *Chunk) end() int64 { return c.Total.Bytes + c.PendingBytes }

// watchers are the readers of one session's events. The zero value has no readers.
type watchers struct {
	mu    sync.Mutex
	all   []*watcher
	ended error // the reason why no reader can be added; nil if readers can be added
}

// add adds a reader. If the session has ended, add ends the reader instead.
func (ws *watchers) add(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ended != nil {
		w.end(ws.ended)
		return
	}
	ws.all = append(ws.all, w)
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if i := slices.Index(ws.all, w); i >= 0 {
		ws.all = slices.Delete(ws.all, i, i+1)
	}
}

func (ws *watchers) want() (d detail) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		d = d.and(w.detail)
	}
	return d
}

// tellChunk sends a chunk to the readers. The chunk's text was accepted at offset from. asked are
// the details that were wanted when the chunk was scored. A reader that asks for more details,
// because it joined later, misses the chunk.
func (ws *watchers) tellChunk(c *Chunk, asked detail, from int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	to := c.end()
	for _, w := range ws.all {
		switch {
		case !asked.covers(w.detail):
			w.miss(from, to)
		case !w.detail.lines && !w.detail.records, w.detail.lines && len(c.Lines) > 0,
			w.detail.records && len(c.Records) > 0:
			w.add(Event{Chunk: new(c.only(w.detail))}, from, to)
		}
	}
}

func (ws *watchers) tellUpdate(u *Update, offset int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		if w.detail.updates {
			w.add(Event{Update: u}, offset, offset)
		}
	}
}

// end ends all readers, and every reader that is added later.
func (ws *watchers) end(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ended == nil {
		ws.ended = err
	}
	for _, w := range ws.all {
		w.end(err)
	}
}

// cut ends all readers, but new readers may join.
func (ws *watchers) cut(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		w.end(err)
	}
}

// subscribers are the readers of all sessions' events. They share a memory limit, and end together
// when the Manager drains.
type subscribers struct {
	watchers
	taken atomic.Int64 // the bytes in the queues of all readers
}

// join adds a reader of a session's events. The caller must call leave when it stops reading.
func (a *subscribers) join(ws *watchers, d detail) (w *watcher, leave func()) {
	w = newWatcher(d, &a.taken)
	a.add(w)
	ws.add(w)
	return w, func() {
		ws.remove(w)
		a.remove(w)
		w.close()
	}
}

// Limits on the memory of events in queues. An event that does not fit is dropped, and its reader
// gets a Gap. Requests that feed a session never wait for a reader.
const (
	WatcherBytes  = 1 << 20  // limit for one reader
	WatchersBytes = 16 << 20 // limit for all readers
)

// watcher is one reader of a session's events. Its queue never makes the sender wait.
type watcher struct {
	detail detail
	taken  *atomic.Int64 // the bytes in the queues of all readers

	ready chan struct{} // has an element while the queue may have an event

	mu    sync.Mutex
	queue []Event
	bytes int64
	gap   *Gap
	ended error
}

func newWatcher(d detail, taken *atomic.Int64) *watcher {
	return &watcher{detail: d, taken: taken, ready: make(chan struct{}, 1)}
}

// add appends an event about the text between two offsets. If the event does not fit, add records
// it as dropped.
func (w *watcher) add(e Event, from, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := e.bytes()
	switch {
	case w.ended != nil:
		return
	case w.gap != nil || !w.fits(bytes):
		w.missLocked(from, to)
	default:
		w.bytes += bytes
		w.taken.Add(bytes)
		w.queue = append(w.queue, e)
	}
	w.signal()
}

// fits reports whether an event fits the memory limits. An empty queue accepts any event.
func (w *watcher) fits(bytes int64) bool {
	return len(w.queue) == 0 ||
		w.bytes+bytes <= WatcherBytes && w.taken.Load()+bytes <= WatchersBytes
}

func (w *watcher) miss(from, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.missLocked(from, to)
		w.signal()
	}
}

func (w *watcher) missLocked(from, to int64) {
	if w.gap == nil {
		w.gap = &Gap{From: from}
	}
	w.gap.To = to
	w.gap.Events++
}

// end stores an error that take returns after the queued events.
func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.ended = err
		w.signal()
	}
}

func (w *watcher) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// take returns the next event. more is false if the queue is empty. An error means that no further
// event follows.
func (w *watcher) take() (e Event, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.queue) > 0:
		e, w.queue[0] = w.queue[0], Event{}
		w.queue = w.queue[1:]
		bytes := e.bytes()
		w.bytes -= bytes
		w.taken.Add(-bytes)
		return e, true, nil
	case w.gap != nil:
		e.Gap, w.gap = w.gap, nil
		return e, true, nil
	}
	return e, false, w.ended
}

func (w *watcher) close() {
	w.end(ErrNotFound)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken.Add(-w.bytes)
	w.queue, w.bytes = nil, 0
}

// bytes returns the approximate memory of an event in the queue.
func (e *Event) bytes() (n int64) {
	n = 1 << 9
	if c := e.Chunk; c != nil {
		n += 8*int64(len(c.LogProbs)+len(c.BaselineLogProbs)) + int64(len(c.Text))
		if c.Words != nil {
			n += 8*int64(len(c.Words.Sizes)) + 4*int64(len(c.Words.IDs))
		}
		for _, all := range [][][]Candidate{c.Top, c.BaselineTop} {
			if len(all) > 0 {
				n += int64(len(all)) * int64(24+16*len(all[0]))
			}
		}
		for i := range c.Lines {
			n += 1<<8 + int64(len(c.Lines[i].Text)) + 4*int64(len(c.Lines[i].TokenBits))
			n += IncidentBytes * int64(len(c.Lines[i].Incidents))
		}
		for i := range c.Records {
			n += 1<<8 + int64(len(c.Records[i].Text))
		}
	}
	if u := e.Update; u != nil {
		for i := range u.Branches {
			n += 1<<7 + 16*int64(len(u.Branches[i].Banks))
		}
	}
	return n
}

// isBefore reports whether all text of an event is before an offset. If a Gap only begins before
// the offset, isBefore moves the beginning of the Gap to the offset.
func (e *Event) isBefore(offset int64) bool {
	switch {
	case e.Chunk != nil:
		return e.Chunk.end() <= offset
	case e.Gap != nil && e.Gap.To <= offset:
		return true
	case e.Gap != nil:
		e.Gap.From = max(e.Gap.From, offset)
	}
	return false
}
