package session

import (
	"slices"
	"sync"
	"sync/atomic"
)

// watchers are the readers of the events of one session. The zero value has none.
type watchers struct {
	mu    sync.Mutex
	all   []*watcher
	ended error // why there can be no more; nil: there can
}

// add makes a reader one of the session's, or ends it if the session has ended.
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

// want is what any of the readers asks for.
func (ws *watchers) want() (d detail) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		d = d.and(w.detail)
	}
	return d
}

// tellChunk tells the readers of a chunk that was accepted at an offset, with what was asked for
// when it was scored. A reader who has come since and asks for more misses it.
func (ws *watchers) tellChunk(c *Chunk, asked detail, from int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	to := c.end()
	for _, w := range ws.all {
		switch {
		case !asked.covers(w.detail):
			w.miss(from, to)
		case !w.detail.lines || len(c.Lines) > 0:
			w.add(Event{Chunk: new(c.only(w.detail))}, from, to)
		}
	}
}

// tellUpdate tells the readers who ask for that of an update, which came at an offset.
func (ws *watchers) tellUpdate(u *Update, offset int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		if w.detail.updates {
			w.add(Event{Update: u}, offset, offset)
		}
	}
}

// end ends all readers, and those to come.
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

// cut ends all readers, who may come back.
func (ws *watchers) cut(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		w.end(err)
	}
}

// subscribers is the readers of all sessions: they end together, and share memory.
type subscribers struct {
	watchers
	taken atomic.Int64 // bytes of their queues
}

// join makes a reader of a session's events; leave must follow.
func (a *subscribers) join(s *session, d detail) (w *watcher, leave func()) {
	w = newWatcher(d, &a.taken)
	a.add(w)
	s.watchers.add(w)
	return w, func() {
		s.watchers.remove(w)
		a.remove(w)
		w.close()
	}
}
