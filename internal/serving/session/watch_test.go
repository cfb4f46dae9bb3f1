package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// reader is a running Watch and the events that it has reported.
type reader struct {
	mu    sync.Mutex
	told  []Event
	hold  chan struct{} // if not nil, emit waits for this channel after the first event
	ended chan error
	stop  context.CancelFunc
}

// startWatch starts to watch a session, and waits for the first event. If held is true, emit waits
// before every later event until reader.hold is closed.
func startWatch(t testing.TB, mg *Manager, who Caller, id string, o WatchOptions,
	held bool) *reader {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &reader{ended: make(chan error, 1), stop: stop}
	if held {
		r.hold = make(chan struct{})
	}
	began := make(chan struct{}, 1)
	go func() {
		r.ended <- mg.Watch(ctx, who, id, o, func(e Event) error {
			if e.Start == nil && r.hold != nil {
				<-r.hold
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.told = append(r.told, e); e.Start != nil {
				began <- struct{}{}
			}
			return nil
		})
	}()
	t.Cleanup(stop)
	select {
	case <-began:
	case err := <-r.ended:
		require.NoError(t, err)
	}
	return r
}

func (r *reader) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.told...)
}

// upTo waits until the reader has received all events up to an offset of the text. It returns the
// events after the start event.
func (r *reader) upTo(t testing.TB, offset int64) []Event {
	t.Helper()
	soon(t, "the events of all text", func() bool {
		all := r.events()
		for _, e := range all {
			if e.Chunk != nil && e.Chunk.end() >= offset || e.Gap != nil && e.Gap.To >= offset {
				return true
			}
		}
		return all[0].Start.Offset >= offset
	})
	return r.events()[1:]
}

func timeless(c Chunk) Chunk {
	c.Elapsed = 0
	return c
}

// A watcher gets the same reports as the feeder, whichever details each of them asks for. The
// watcher can also get the text.
func TestWatcherGetsWhatFeederGets(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	text := logText(5*testChunk + 3)
	score(t, mg, id, text[:7])
	plain := startWatch(t, mg, Caller{}, id, WatchOptions{}, false)
	all := startWatch(t, mg, Caller{}, id,
		WatchOptions{LogProbs: true, Top: 3, Text: true, Updates: true}, false)
	two := startWatch(t, mg, Caller{}, id, WatchOptions{LogProbs: true, Top: 2}, false)

	var told []Chunk
	var updates []Update
	o := ScoreOptions{LogProbs: true, Top: 3, Updated: func(u Update) error {
		updates = append(updates, u)
		return nil
	}}
	_, err := mg.Score(background, Caller{}, id, strings.NewReader(text[7:]), o,
		func(c Chunk) error {
			require.Len(t, c.Top, int(c.Tokens))
			require.Len(t, c.BaselineTop, int(c.Tokens))
			require.Len(t, c.BaselineLogProbs, int(c.Tokens))
			require.Nil(t, c.Text, "the feeder has it")
			told = append(told, c)
			return nil
		})
	require.NoError(t, err)
	require.Len(t, updates, 5)

	var fed strings.Builder
	var chunks []Chunk
	var seen []Update
	for _, e := range all.upTo(t, int64(len(text))) {
		switch {
		case e.Chunk != nil:
			require.EqualValues(t, 7+fed.Len(), e.Chunk.TextOffset)
			fed.Write(e.Chunk.Text)
			c := *e.Chunk
			c.Text, c.TextOffset = nil, 0
			chunks = append(chunks, timeless(c))
		case e.Update != nil:
			seen = append(seen, *e.Update)
			require.Equal(t, e.Update.Offset, chunks[len(chunks)-1].end(), "after its chunk")
		}
	}
	require.Equal(t, text[7:], fed.String())
	for i := range told {
		told[i] = timeless(told[i])
		told[i].TextOffset = 0
	}
	require.Equal(t, told, chunks)
	require.Equal(t, updates, seen)
	for i, e := range plain.upTo(t, int64(len(text))) {
		require.Nil(t, e.Update)
		require.Nil(t, e.Chunk.LogProbs)
		require.Nil(t, e.Chunk.Top)
		require.Nil(t, e.Chunk.Text)
		require.Equal(t, told[i].Bits, e.Chunk.Bits)
	}
	for i, e := range two.upTo(t, int64(len(text))) {
		for k := range e.Chunk.Top {
			require.Equal(t, told[i].Top[k][:2], e.Chunk.Top[k])
		}
	}
}

func TestReportedTokensDoNotDependOnPieces(t *testing.T) {
	mg := newManager(t, Options{})
	text := logText(3*testChunk + 5)
	detailOf := func(t fatal, id string, pieces []string) (top, base [][]Candidate,
		logs []float64) {
		for _, piece := range pieces {
			o := ScoreOptions{LogProbs: true, Top: 4}
			_, err := mg.Score(background, Caller{}, id, strings.NewReader(piece), o,
				func(c Chunk) error {
					top, base = append(top, c.Top...), append(base, c.BaselineTop...)
					logs = append(logs, c.BaselineLogProbs...)
					return nil
				})
			require.NoError(t, err)
		}
		return top, base, logs
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := drawRequest(rt)
		whole, pieces := create(rt, mg, r), create(rt, mg, r)
		top, base, logs := detailOf(rt, whole, []string{text})
		require.Len(rt, top, len(text))
		reader := startWatch(t, mg, Caller{}, pieces, WatchOptions{LogProbs: true, Top: 1,
			Updates: true}, false)
		top2, base2, logs2 := detailOf(rt, pieces, cut(rt, text, 30))
		require.Equal(rt, top, top2)
		require.Equal(rt, base, base2)
		require.Equal(rt, logs, logs2)
		require.Equal(rt, hash(rt, mg, whole), hash(rt, mg, pieces))
		reader.stop()
		require.ErrorIs(rt, <-reader.ended, context.Canceled)
		require.NoError(rt, mg.Delete(Caller{}, whole))
		require.NoError(rt, mg.Delete(Caller{}, pieces))
	})
}

// A reader that takes no events does not delay the feeder. It later gets a Gap with the range of
// bytes of the missed events, and then the events after that range.
func TestSlowReaderGetsRangeOfMissedEvents(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	slow := startWatch(t, mg, Caller{}, id, WatchOptions{LogProbs: true, Top: 20, Text: true}, true)
	text := logText(8 << 10)
	score(t, mg, id, text)
	require.Greater(t, mg.subscribers.taken.Load(), int64(WatcherBytes/2))
	require.LessOrEqual(t, mg.subscribers.taken.Load(), int64(WatcherBytes))
	close(slow.hold)
	at, gaps := int64(0), 0
	for _, e := range slow.upTo(t, int64(len(text))) {
		switch {
		case e.Gap != nil:
			gaps++
			require.Equal(t, at, e.Gap.From)
			require.Positive(t, e.Gap.Events)
			at = e.Gap.To
		case e.Chunk != nil:
			require.Equal(t, at, e.Chunk.Offset)
			at = e.Chunk.end()
		}
	}
	require.Equal(t, 1, gaps)
	require.EqualValues(t, len(text), at)
	score(t, mg, id, "and on")
	rest := slow.upTo(t, int64(len(text)+6))
	require.Equal(t, "and on", string(rest[len(rest)-1].Chunk.Text))
	slow.stop()
	<-slow.ended
	require.Zero(t, mg.subscribers.taken.Load(), "the memory is given back")
}

func TestWatchEndsWithItsSessionAndAtDrain(t *testing.T) {
	mg := newManager(t, Options{})
	id, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	r, o := startWatch(t, mg, Caller{}, id, WatchOptions{}, false), startWatch(t, mg, Caller{},
		other, WatchOptions{}, false)
	score(t, mg, id, "some text")
	require.NoError(t, mg.Delete(Caller{}, id))
	require.ErrorIs(t, <-r.ended, ErrNotFound)
	require.Len(t, r.events(), 2, "what happened before is told")
	require.ErrorIs(t, mg.Watch(background, Caller{}, id, WatchOptions{}, nil), ErrNotFound)

	score(t, mg, other, "more text")
	require.NoError(t, mg.Drain(background))
	require.ErrorIs(t, <-o.ended, ErrDraining)
	require.Len(t, o.events(), 2)
	require.ErrorIs(t, mg.Watch(background, Caller{}, other, WatchOptions{}, nil), ErrDraining)
}

func TestWatchedSessionExpires(t *testing.T) {
	mg := newManager(t, Options{})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	id := create(t, mg, CreateRequest{TTL: time.Minute})
	r := startWatch(t, mg, Caller{}, id, WatchOptions{}, false)
	now = now.Add(2 * time.Minute)
	_, _, err := mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.ErrorIs(t, <-r.ended, ErrNotFound)
}

// A watch continues when the session's state is evicted and later recovered. A fork has its own
// watchers.
func TestWatchOutlivesStateInMemory(t *testing.T) {
	store, err := folder.Open(t.TempDir(), folder.Options{})
	require.NoError(t, err)
	// this cleanup runs after the manager's cleanup
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	mg := newManager(t, Options{Store: store, Report: func(err error) { t.Error(err) }})
	id := create(t, mg, CreateRequest{})
	text := logText(4 * testChunk)
	score(t, mg, id, text[:20])
	r := startWatch(t, mg, Caller{}, id, WatchOptions{Text: true}, false)
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.lock(background))
	s.dropLocked()
	s.unlock()
	require.Zero(t, get(t, mg, id).MemoryBytes)
	fork, err := mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	f := startWatch(t, mg, Caller{}, fork.ID, WatchOptions{Text: true}, false)
	score(t, mg, id, text[20:])
	var fed strings.Builder
	for _, e := range r.upTo(t, int64(len(text))) {
		fed.Write(e.Chunk.Text)
	}
	require.Equal(t, text[20:], fed.String())
	require.Len(t, f.events(), 1)
	_, _ = complete(t, mg, fork.ID, CompleteRequest{Prompt: []byte("GET"), MaxTokens: 2,
		Commit: CommitAll,
		Seed:   ptr(uint64(1))})
	require.Len(t, f.upTo(t, 25), 2, "what a completion commits is fed, too")
	r.stop()
	f.stop()
	<-r.ended
	<-f.ended
}

func TestWatchSaysWhereItBegins(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(20))
	at := startWatch(t, mg, Caller{}, id, WatchOptions{Offset: ptr(int64(5))}, false)
	soon(t, "a gap", func() bool { return len(at.events()) == 2 })
	require.Equal(t, &Gap{From: 5, To: 20}, at.events()[1].Gap)
	require.EqualValues(t, 20, at.events()[0].Start.Offset)
	require.Nil(t, at.events()[0].Start.LinesFrom)
	var wrong *OffsetError
	err := mg.Watch(background, Caller{}, id, WatchOptions{Offset: ptr(int64(21))}, nil)
	require.ErrorAs(t, err, &wrong)
	require.EqualValues(t, 20, wrong.Have)
	require.ErrorIs(t, mg.Watch(background, Caller{Key: "other"}, id, WatchOptions{}, nil),
		ErrNotFound)

	_, err = feedLines(mg, id, "x\n", ScoreOptions{Lines: true})
	require.NoError(t, err)
	lines := startWatch(t, mg, Caller{}, id, WatchOptions{Lines: true, Text: true, TokenBits: true},
		false)
	require.EqualValues(t, 20, *lines.events()[0].Start.LinesFrom)
	score(t, mg, id, "one\ntwo\nthree")
	events := lines.upTo(t, 20+2+8)
	require.Len(t, events, 1)
	require.Equal(t, "two", string(events[0].Chunk.Lines[1].Text))
	require.Len(t, events[0].Chunk.Lines[1].TokenBits, 3)
}

func TestIdleWatchSaysSo(t *testing.T) {
	mg := newManager(t, Options{})
	mg.watchIdle = time.Millisecond
	id := create(t, mg, CreateRequest{})
	r := startWatch(t, mg, Caller{}, id, WatchOptions{}, false)
	soon(t, "an empty event", func() bool { return len(r.events()) > 2 })
	require.Equal(t, Event{}, r.events()[2])
	bad := errors.New("gone")
	require.ErrorIs(t, mg.Watch(background, Caller{}, id, WatchOptions{},
		func(Event) error { return bad }), bad)
}

// Readers join and leave while text is fed. Each reader gets all text after its start, without a
// gap.
func TestReadersComeAndGo(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	id := create(t, mg, CreateRequest{})
	text := logText(60 * testChunk)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			o := WatchOptions{LogProbs: i%2 == 0, Text: true, Updates: i%3 == 0}
			r := startWatch(t, mg, Caller{}, id, o, false)
			at := r.events()[0].Start.Offset
			for _, e := range r.upTo(t, int64(len(text))) {
				switch {
				case e.Gap != nil:
					if at != e.Gap.From {
						t.Errorf("a gap from %d, expected %d", e.Gap.From, at)
					}
					at = e.Gap.To
				case e.Chunk != nil:
					if at != e.Chunk.Offset || string(e.Chunk.Text) != text[at:e.Chunk.end()] {
						t.Errorf("a chunk at %d, expected %d", e.Chunk.Offset, at)
					}
					at = e.Chunk.end()
				}
			}
			r.stop()
			<-r.ended
		})
	}
	for piece := range 60 {
		score(t, mg, id, text[piece*testChunk:(piece+1)*testChunk])
	}
	wait.Wait()
}
