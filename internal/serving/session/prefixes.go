package session

import (
	"crypto/sha256"
	"sync"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// prefixes caches streams that have read the beginning of a prompt, up to the end of a chunk. An
// editor sends nearly the same prompt after every key. A prompt with the same beginning continues
// from the cached stream. The answer does not change, because a stream depends only on the text
// that it has read. Each cached stream uses a budget.Extra.
type prefixes struct {
	budget *budget.Budget[*session]
	mu     struct {
		sync.Mutex
		kept map[prefixKey]*keptPrefix
	}
}

// prefixKey identifies a session, and the beginning of a prompt that follows the session's text.
// Empty sessions of one model and owner have equal keys, because their settings are the model's
// defaults.
type prefixKey struct {
	owner, model string
	session      string // id of the session; "" if the session is empty
	ground       stream.Ground
	text         [sha256.Size]byte
}

// The mutex prefixes.mu guards the fields of keptPrefix.
type keptPrefix struct {
	stream  *stream.Stream // without the fast weights; see stream.Stream.Shelved
	extra   *budget.Extra
	dropped bool
}

// sparsely is the distance in chunks between cached streams along a prompt. They serve later
// prompts that differ from this prompt before its end. The stream at the end of the last complete
// chunk is also cached.
const sparsely = 16

func newPrefixes(b *budget.Budget[*session]) *prefixes {
	p := &prefixes{budget: b}
	p.mu.kept = map[prefixKey]*keptPrefix{}
	return p
}

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

// keep caches a copy of a stream, and reports whether there was memory for the copy.
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

// enter adds a stream to the cache. It returns false if the budget has already taken back the
// memory, or if another request has cached the same prefix.
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

// drop removes a stream from the cache. The budget calls drop while the budget holds its own lock.
func (p *prefixes) drop(key prefixKey, k *keptPrefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.dropped = true; p.mu.kept[key] == k {
		delete(p.mu.kept, key)
	}
}

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

type promptEnd struct {
	at  int
	key prefixKey
}

// promptEnds returns the places where chunks end if the prompt follows the session's text. It
// returns nil if the cache is not used for this prompt, for example if tokens are words.
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
// the length of this beginning.
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

// keepReading caches a stream that has read a prompt up to the offset read, if a chunk ends there.
// It caches the last end of a chunk in the prompt, and every 16th end (see sparsely). If always is
// true, it caches every end. It reports whether it cached the stream.
func (g *generation) keepReading(
	ends []promptEnd, frozen *stream.Stream, read int, always bool,
) (kept bool) {
	if len(ends) == 0 || read < ends[0].at {
		return false
	}
	i := (read - ends[0].at) / g.s.Settings.Chunk
	if ends[i].at == read && (always || i == len(ends)-1 || i%sparsely == sparsely-1) {
		kept = g.engine.prefixes.keep(ends[i].key, frozen)
		// The session was deleted, perhaps before keep added this stream to the cache.
		if g.s.alive() != nil {
			g.engine.prefixes.forget(g.s.ID)
		}
	}
	return kept
}
