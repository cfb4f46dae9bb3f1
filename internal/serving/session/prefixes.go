package session

import (
	"crypto/sha256"
	"sync"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// prefixes caches known prefixes: streams that have read the beginning of a prompt, up to the end
// of a chunk. The next prompt with the same beginning is read from there, because an editor sends
// the same text again with every key. A stream is a function of the text it has read, so the cache
// changes no bit of an answer. The cache's memory is an extra of the budget; see budget.Extra.
type prefixes struct {
	budget *budget.Budget[*session]
	mu     struct {
		sync.Mutex
		kept map[prefixKey]*keptPrefix
	}
}

// prefixKey is the beginning of a prompt, and the session that the prompt continues. Sessions
// without text are equal if model and owner are: their settings are the model's defaults.
type prefixKey struct {
	owner, model string
	session      string        // "" for a session without text
	ground       stream.Ground // identifies the state of the session
	text         [sha256.Size]byte
}

// keptPrefix is guarded by prefixes.mu.
type keptPrefix struct {
	stream  *stream.Stream // without fast weights; see stream.Stream.Shelved
	extra   *budget.Extra
	dropped bool
}

// sparsely is the distance, in chunks, between the cached ends of chunks in a prompt, besides its
// last end. They serve prompts that differ from this one before its end.
const sparsely = 16

func newPrefixes(b *budget.Budget[*session]) *prefixes {
	p := &prefixes{budget: b}
	p.mu.kept = map[prefixKey]*keptPrefix{}
	return p
}

// find returns the stream cached under a key, or nil.
func (p *prefixes) find(key prefixKey) *stream.Stream {
	p.mu.Lock()
	k := p.mu.kept[key]
	p.mu.Unlock()
	if k == nil {
		return nil
	}
	k.extra.Use()
	return k.stream
}

// keep caches a copy of a stream, if there is memory for the copy. It reports whether the cache has
// a copy.
func (p *prefixes) keep(key prefixKey, s *stream.Stream) bool {
	if p.find(key) != nil {
		return true
	}
	k := &keptPrefix{stream: s.Shelved()}
	extra := p.budget.Keep(k.stream.MemoryBytes(), func() { p.drop(key, k) })
	if extra != nil && !p.enter(key, k, extra) {
		extra.Release()
	}
	return extra != nil
}

// enter adds a stream to the cache. It reports false if the budget has taken the memory back
// already, or another request has cached the same prefix.
func (p *prefixes) enter(key prefixKey, k *keptPrefix, extra *budget.Extra) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.dropped || p.mu.kept[key] != nil {
		return false
	}
	k.extra = extra
	p.mu.kept[key] = k
	return true
}

// drop is called under the budget's lock.
func (p *prefixes) drop(key prefixKey, k *keptPrefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.dropped = true; p.mu.kept[key] == k {
		delete(p.mu.kept, key)
	}
}

// forget drops all streams that continue a session.
func (p *prefixes) forget(session string) {
	var extras []*budget.Extra
	p.mu.Lock()
	for key, k := range p.mu.kept {
		if key.session == session {
			extras = append(extras, k.extra)
			delete(p.mu.kept, key)
		}
	}
	p.mu.Unlock()
	for _, e := range extras {
		e.Release()
	}
}

// promptEnd is an end of a chunk in a prompt.
type promptEnd struct {
	at  int // bytes of the prompt
	key prefixKey
}

// promptEnds returns the ends of chunks in a prompt after the session's text, if tokens are bytes.
// It returns none if the reading is not to be cached.
func (g *generation) promptEnds(prompt []byte) (ends []promptEnd) {
	s := g.s
	if g.static || g.echo || s.model.OfWords() {
		return nil
	}
	key := prefixKey{owner: s.Owner, model: s.model.id}
	if !g.blank {
		key.session, key.ground = s.ID, s.stream.Ground()
	}
	hash, from := sha256.New(), 0
	for at := s.stream.Room(); at <= len(prompt); at += s.Settings.Chunk {
		hash.Write(prompt[from:at])
		hash.Sum(key.text[:0])
		ends, from = append(ends, promptEnd{at, key}), at
	}
	return ends
}

// beginReading returns a frozen stream that has read the longest cached beginning of a prompt, and
// where the rest begins.
func (g *generation) beginReading(ends []promptEnd) (frozen *stream.Stream, read int) {
	for i := len(ends) - 1; i >= 0; i-- {
		if kept := g.engine.prefixes.find(ends[i].key); kept != nil {
			return g.s.stream.Resumed(kept), ends[i].at
		}
	}
	if g.static {
		return g.s.stream.Static(), 0
	}
	return g.s.stream.Frozen(), 0
}

// keepReading caches a stream that has read a prompt up to the offset read, if that is an end to
// cache. Such ends are the last end of a chunk and a few before it or, if always is true, every
// end. It reports whether the cache has the stream.
func (g *generation) keepReading(
	ends []promptEnd, frozen *stream.Stream, read int, always bool,
) (kept bool) {
	if len(ends) == 0 || read < ends[0].at {
		return false
	}
	i := (read - ends[0].at) / g.s.Settings.Chunk
	if ends[i].at == read && (always || i == len(ends)-1 || i%sparsely == sparsely-1) {
		kept = g.engine.prefixes.keep(ends[i].key, frozen)
		if g.s.alive() != nil { // the cached streams of the session were dropped before this one
			g.engine.prefixes.forget(g.s.ID)
		}
	}
	return kept
}
