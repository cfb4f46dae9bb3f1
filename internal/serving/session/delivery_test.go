package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func deliver(t fatal, mg *Manager, id, key, text string) Summary {
	t.Helper()
	sum, err := mg.Deliver(background, Caller{}, id, Delivery{key, []byte(text)}, ScoreOptions{},
		noChunks)
	require.NoError(t, err)
	return sum
}

func TestRepeatedDeliveryIsNotFed(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	require.False(t, deliver(t, sv.mg, id, "a", "one\n").Duplicate)
	require.True(t, deliver(t, sv.mg, id, "a", "one\n").Duplicate)
	require.False(t, deliver(t, sv.mg, id, "a", "two\n").Duplicate,
		"another text is another delivery")
	sv.stop()
	sv.start()
	again := deliver(t, sv.mg, id, "a", "one\n")
	require.True(t, again.Duplicate)
	require.Zero(t, again.Bytes)
	require.EqualValues(t, 8, again.Offset)
	require.False(t, deliver(t, sv.mg, id, "", "one\n").Duplicate, "without a key nothing is known")
	require.False(t, deliver(t, sv.mg, id, "", "one\n").Duplicate)
	require.Equal(t, "one\ntwo\none\none\n", logged(t, sv.mg, id))
}

func TestOldDeliveriesAreForgotten(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	for i := range DeliveriesMax + 2 {
		deliver(t, mg, id, fmt.Sprint(i), "x\n")
	}
	require.True(t, deliver(t, mg, id, "1", "x\n").Duplicate)
	require.False(t, deliver(t, mg, id, "0", "x\n").Duplicate)
	withSession(t, mg, id, func(s *session) {
		_, err := decodeHead(id, s.encode())
		require.NoError(t, err)
	})
}

// cutDown interrupts a delivery after some chunks, as if the server were killed between two chunks.
func cutDown(t fatal, sv *server, id, key, text string, chunks int) {
	t.Helper()
	cut := errors.New("cut off")
	_, err := sv.mg.Deliver(background, Caller{}, id, Delivery{key, []byte(text)}, ScoreOptions{},
		func(Chunk) error {
			if chunks--; chunks == 0 {
				return cut
			}
			return nil
		})
	require.ErrorIs(t, err, cut)
	sv.stop()
	sv.start()
}

func TestCutDeliveryContinuesWhereItWasCut(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	text := logText(400) + "\n"
	id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 7}})
	cutDown(t, sv, id, "a", text, 3)
	require.Len(t, logged(t, sv.mg, id), 21)
	cutDown(t, sv, id, "a", text, 2)
	require.False(t, deliver(t, sv.mg, id, "a", text).Duplicate)
	require.True(t, deliver(t, sv.mg, id, "a", text).Duplicate)
	require.Equal(t, text, logged(t, sv.mg, id))
	whole := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 7}})
	score(t, sv.mg, whole, text)
	require.Equal(t, hash(t, sv.mg, whole), hash(t, sv.mg, id))
}

// A delivery is cut within a line, and other text follows. A newline ends the cut line before the
// other text. When the delivery is repeated, the whole line is fed again.
func TestCutLineIsEndedBeforeOtherText(t *testing.T) {
	others := map[string]func(sv *server, id string){
		"delivery":    func(sv *server, id string) { deliver(t, sv.mg, id, "b", "other\n") },
		"without key": func(sv *server, id string) { deliver(t, sv.mg, id, "", "other\n") },
		"text":        func(sv *server, id string) { score(t, sv.mg, id, "\nother\n") },
		"completion": func(sv *server, id string) {
			_, err := sv.mg.Complete(background, Caller{}, id,
				CompleteRequest{
					Prompt: []byte("\nother\n"), Commit: CommitPrompt, MaxTokens: 1,
				}, noPieces)
			require.NoError(t, err)
		},
		"batch": func(sv *server, id string) {
			batch(t, sv.mg, id, BatchRequest{
				Prompts: [][]byte{[]byte("\nother\n")}, N: 1, Commit: CommitPrompt,
			})
		},
	}
	for name, other := range others {
		sv := newServer(t, t.TempDir(), Options{})
		id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 7}})
		cutDown(t, sv, id, "a", "first\nsecond\nthird\n", 1)
		require.Equal(t, "first\ns", logged(t, sv.mg, id), name)
		other(sv, id)
		require.False(t, deliver(t, sv.mg, id, "a", "first\nsecond\nthird\n").Duplicate, name)
		require.True(t, deliver(t, sv.mg, id, "a", "first\nsecond\nthird\n").Duplicate, name)
		require.Equal(t, "first\ns\nother\nsecond\nthird\n", logged(t, sv.mg, id), name)
		sv.stop()
	}
}

// A delivery is cut before the newline of a line, and another delivery ends that line. The line is
// then whole, and is not fed again.
func TestLineThatLackedOnlyItsNewlineIsNotRepeated(t *testing.T) {
	const text = "first\nsecond\n"
	for name, c := range map[string]struct {
		chunk int
		other func(sv *server, id string)
		want  string
	}{
		"delivery": {5, func(sv *server, id string) { deliver(t, sv.mg, id, "b", "other\n") },
			"first\nother\nsecond\n"},
		"without key": {5, func(sv *server, id string) { deliver(t, sv.mg, id, "", "other\n") },
			"first\nother\nsecond\n"},
		"last line": {12, func(sv *server, id string) { deliver(t, sv.mg, id, "b", "other\n") },
			"first\nsecond\nother\n"},
		"text": {5, func(sv *server, id string) { score(t, sv.mg, id, "ly\n") },
			"firstly\nfirst\nsecond\n"},
	} {
		sv := newServer(t, t.TempDir(), Options{})
		id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": c.chunk}})
		cutDown(t, sv, id, "a", text, 1)
		require.Equal(t, text[:c.chunk], logged(t, sv.mg, id), name)
		c.other(sv, id)
		require.Equal(t, name == "last line", deliver(t, sv.mg, id, "a", text).Duplicate, name)
		require.True(t, deliver(t, sv.mg, id, "a", text).Duplicate, name)
		require.Equal(t, c.want, logged(t, sv.mg, id), name)
		sv.stop()
	}
}

// A delivery is cut before the newline of a line. Another delivery fails before it ends that line.
// The newline counts as fed only if a later request feeds it.
func TestNewlineCountsOnlyOnceItIsFed(t *testing.T) {
	const text = "first\nsecond\n"
	for name, c := range map[string]struct {
		other func(sv *server, id string)
		want  string
	}{
		"text": {func(sv *server, id string) { score(t, sv.mg, id, "ly\n") },
			"firstly\nfirst\nsecond\n"},
		"delivery": {func(sv *server, id string) { deliver(t, sv.mg, id, "b", "other\n") },
			"first\nother\nsecond\n"},
		"without key": {func(sv *server, id string) { deliver(t, sv.mg, id, "", "other\n") },
			"first\nother\nsecond\n"},
		"nothing": {func(*server, string) {}, text},
	} {
		for _, failed := range []string{"b", ""} {
			sv, store := faulty(t, Options{})
			id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 5}})
			cutDown(t, sv, id, "a", text, 1)
			store.fail("Append", storage.ErrUnavailable, false)
			_, err := sv.mg.Deliver(background, Caller{}, id,
				Delivery{failed, []byte("other\n")}, ScoreOptions{}, noChunks)
			require.ErrorIs(t, err, ErrUnavailable)
			require.Equal(t, "first", logged(t, sv.mg, id))
			sv.restart()
			c.other(sv, id)
			require.False(t, deliver(t, sv.mg, id, "a", text).Duplicate, name)
			require.True(t, deliver(t, sv.mg, id, "a", text).Duplicate, name)
			require.Equal(t, c.want, logged(t, sv.mg, id), name)
		}
	}
}

// Deliveries are interrupted, the server is killed, and a client repeats the lines that were not
// acknowledged. Then the session has every line exactly once. After interruptions by other
// deliveries, the session also has incomplete lines.
func TestEveryDeliveredLineIsThereOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, t.TempDir(), Options{})
		defer func() { sv.stop() }()
		id := create(rt, sv.mg, CreateRequest{Settings: Settings{"method": MethodStatic,
			"chunk": 5}})
		var want []string
		for batch := range 12 {
			var text strings.Builder
			for line := range rapid.IntRange(1, 4).Draw(rt, "lines") {
				fmt.Fprintf(&text, "line %d-%d\n", batch, line)
			}
			want = append(want, strings.Split(strings.TrimSpace(text.String()), "\n")...)
			key := fmt.Sprint(batch)
			for range rapid.IntRange(0, 2).Draw(rt, "cuts") {
				chunks := rapid.IntRange(1, 2).Draw(rt, "chunks")
				if sum, err := sv.mg.Deliver(background, Caller{}, id,
					Delivery{key, []byte(text.String())},
					ScoreOptions{}, func(Chunk) error {
						if chunks--; chunks == 0 {
							return errors.New("cut off")
						}
						return nil
					}); err == nil {
					require.True(rt, sum.Duplicate || sum.Bytes > 0)
				}
				sv.stop()
				sv.start()
				if rapid.Bool().Draw(rt, "another comes in between") {
					deliver(rt, sv.mg, id, fmt.Sprint("between ", batch), "between\n")
				}
			}
			deliver(rt, sv.mg, id, key, text.String())
			if rapid.Bool().Draw(rt, "the answer is lost") {
				require.True(rt, deliver(rt, sv.mg, id, key, text.String()).Duplicate)
			}
		}
		var whole []string
		for line := range strings.Lines(logged(rt, sv.mg, id)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case slices.Contains(want, line):
				whole = append(whole, line)
			case line != "between":
				require.True(rt, slices.ContainsFunc(want, func(w string) bool {
					return strings.HasPrefix(w, line)
				}), line)
			}
		}
		require.Equal(rt, want, whole)
	})
}

func TestDeliveriesOfASessionQueue(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.takeTurn(background, 0))
	var all sync.WaitGroup
	var want strings.Builder
	for i := range WaitingMax {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		all.Go(func() {
			_, err := mg.Deliver(background, Caller{}, id, Delivery{Text: []byte(line)},
				ScoreOptions{Wait: time.Minute}, noChunks)
			if err != nil {
				t.Error(err)
			}
		})
		soon(t, "the delivery waits", func() bool { return s.queued.Load() == int32(i+1) })
	}
	_, err = mg.Deliver(background, Caller{}, id, Delivery{Text: []byte("x\n")},
		ScoreOptions{Wait: time.Minute}, noChunks)
	require.ErrorIs(t, err, ErrQueueFull)
	<-s.feeding
	all.Wait()
	require.Len(t, logged(t, mg, id), want.Len())
	require.NoError(t, s.takeTurn(background, 0))
	defer func() { <-s.feeding }()
	_, err = mg.Deliver(background, Caller{}, id, Delivery{Text: []byte("x\n")},
		ScoreOptions{Wait: time.Millisecond}, noChunks)
	require.ErrorIs(t, err, ErrQueueFull, "it has waited as long as it could")
}

func TestDeliveryOutlivesItsClient(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"chunk": 7}})
	ctx, leave := context.WithCancel(background)
	text := logText(200) + "\n"
	_, err := mg.Deliver(ctx, Caller{}, id, Delivery{Text: []byte(text)}, ScoreOptions{},
		func(Chunk) error { leave(); return nil })
	require.NoError(t, err)
	require.Equal(t, text, logged(t, mg, id))
}

func TestDeliveryReportsItsUnfinishedRecord(t *testing.T) {
	mg := newManager(t, Options{})
	const text = "a\n b\n"
	o := ScoreOptions{Lines: true, Records: true, Text: true}
	_, want := records(t, mg, create(t, mg, CreateRequest{}), o, text)
	require.Len(t, want, 1)
	for _, key := range []string{"", "a"} {
		id := create(t, mg, CreateRequest{})
		sum, err := mg.Deliver(background, Caller{}, id, Delivery{key, []byte(text)}, o, noChunks)
		require.NoError(t, err)
		require.Equal(t, &want[0], sum.Rest)
		require.Nil(t, sum.Last)
	}
}

// checkedLease is a lease that calls check whenever the server checks the lease.
type checkedLease struct {
	ownLease
	check func()
}

func (l checkedLease) Err() error {
	l.check()
	return nil
}

// The unfinished record is only part of the report. If the state for it is missing, a whole
// delivery does not fail, because its repetition would be fed again.
func TestWholeDeliveryNeedsNoRecord(t *testing.T) {
	const text = "a\n b\n"
	for name, fails := range map[string]func(mg *Manager, s *session) (end func()){
		"shutdown": func(mg *Manager, s *session) func() {
			drained := make(chan error, 1)
			go func() { drained <- mg.Drain(background) }()
			soon(t, "the server drains", func() bool { return mg.life.Check() != nil })
			return func() { require.NoError(t, <-drained) }
		},
		"long recovery": func(mg *Manager, s *session) func() {
			mg.engine.scoreRecovery = time.Millisecond
			taken := false // whether the test keeps the state from the delivery
			mg.index.lease.Lease = checkedLease{check: func() { taken = taken || s.tryLock() }}
			return func() {
				require.True(t, taken)
				s.unlock()
			}
		},
	} {
		mg := newManager(t, Options{})
		id := create(t, mg, CreateRequest{})
		var end func()
		s, err := mg.index.catalog.find(Caller{}, id)
		require.NoError(t, err)
		sum, err := mg.Deliver(background, Caller{}, id, Delivery{"a", []byte(text)},
			ScoreOptions{Lines: true, Records: true}, func(Chunk) error {
				end = fails(mg, s)
				return nil
			})
		require.NoError(t, err, name)
		require.EqualValues(t, len(text), sum.Offset, name)
		require.Nil(t, sum.Rest, name)
		end()
	}
}

func TestForkForgetsDeliveries(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	deliver(t, mg, id, "a", "one\n")
	fork, err := mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	require.False(t, deliver(t, mg, fork.ID, "a", "one\n").Duplicate)
}

// A shutdown waits for a delivery without a key, because a repeated delivery would be fed twice. A
// delivery with a key is cut, and continues when the client repeats it.
func TestShutdownWaitsForDeliveryWithoutKey(t *testing.T) {
	text := logText(200) + "\n"
	for key, want := range map[string]error{"": nil, "a": ErrDraining} {
		sv := newServer(t, t.TempDir(), Options{})
		id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 7}})
		drained := make(chan error, 1)
		shutdown := sync.OnceFunc(func() {
			go func() { drained <- sv.mg.Drain(background) }()
			soon(t, "the server drains", func() bool {
				err := sv.mg.life.Enter()
				if err == nil {
					sv.mg.life.Leave()
				}
				return err != nil
			})
		})
		_, err := sv.mg.Deliver(background, Caller{}, id, Delivery{key, []byte(text)},
			ScoreOptions{},
			func(Chunk) error { shutdown(); return nil })
		require.ErrorIs(t, err, want)
		require.NoError(t, <-drained)
		sv.stop()
		sv.start()
		require.Equal(t, key == "", logged(t, sv.mg, id) == text)
		if key != "" {
			deliver(t, sv.mg, id, key, text)
		}
		require.Equal(t, text, logged(t, sv.mg, id))
		sv.stop()
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("the client has gone") }

// A delivery is cut within a line. Another request follows, but none of its text is accepted. When
// the delivery is repeated, it continues where it was cut.
func TestRequestWithoutTextCutsNoDelivery(t *testing.T) {
	overloaded := func(sv *server, request func() error) error {
		queue := &sv.mg.engine.waiting
		before := queue.max
		defer func() { queue.max = before }()
		queue.max = 0
		return request()
	}
	scored := func(sv *server, id string, body io.Reader) error {
		_, err := sv.mg.Score(background, Caller{}, id, body, ScoreOptions{}, noChunks)
		return err
	}
	others := map[string]func(sv *server, id string){
		"empty text": func(sv *server, id string) {
			require.NoError(t, scored(sv, id, strings.NewReader("")))
		},
		"broken text": func(sv *server, id string) {
			require.ErrorAs(t, scored(sv, id, brokenBody{}), new(*BodyError))
		},
		"refused text": func(sv *server, id string) {
			err := overloaded(sv, func() error { return scored(sv, id, strings.NewReader("x")) })
			require.ErrorIs(t, err, ErrOverloaded)
		},
		"refused delivery": func(sv *server, id string) {
			err := overloaded(sv, func() error {
				_, err := sv.mg.Deliver(background, Caller{}, id, Delivery{"b", []byte("x\n")},
					ScoreOptions{}, noChunks)
				return err
			})
			require.ErrorIs(t, err, ErrOverloaded)
		},
		"completion without prompt": func(sv *server, id string) {
			_, err := sv.mg.Complete(background, Caller{}, id,
				CompleteRequest{Commit: CommitPrompt, MaxTokens: 1}, noPieces)
			require.NoError(t, err)
		},
	}
	const text = "first\nsecond\nthird\n"
	for name, other := range others {
		sv := newServer(t, t.TempDir(), Options{})
		id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 7}})
		cutDown(t, sv, id, "a", text, 1)
		other(sv, id)
		deliver(t, sv.mg, id, "a", text)
		require.Equal(t, text, logged(t, sv.mg, id), name)
		sv.stop()
	}
}
