package session

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func readText(t fatal, mg *Manager, id string, body ...string) (chunks []Chunk, sum Summary) {
	t.Helper()
	o := ScoreOptions{LogProbs: true, Learn: LearnFalse}
	sum, err := mg.Score(context.Background(), Caller{}, id, (*reads)(&body), o,
		func(c Chunk) error {
			chunks = append(chunks, c)
			return nil
		})
	require.NoError(t, err)
	return chunks, sum
}

func TestReadTextLeavesSessionUnchanged(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		before, text := logText(rapid.IntRange(0, 90).Draw(t, "before")),
			logText(rapid.IntRange(1, 90).Draw(t, "text"))
		id := create(t, mg, r)
		score(t, mg, id, before)
		was, wasHash, at := get(t, mg, id), hash(t, mg, id), int64(len(before))

		chunks, sum := readText(t, mg, id, cut(t, text, 40)...)
		for _, c := range chunks {
			require.Equal(t, at, c.Offset, "behind the session's text")
			at += c.Bytes
			require.Equal(t, at, c.Total.Bytes)
			require.Equal(t, was.Step, c.Updates, "nothing is learnt on the way")
			require.Equal(t, r.Settings["baseline"] == true, c.BaselineBits != nil)
		}
		require.Equal(t, int64(len(text)), sum.Bytes)
		require.Equal(t, was.Offset, sum.Offset)
		require.Equal(t, was.Tally, sum.Total)
		again, _ := readText(t, mg, id, text)
		require.Equal(t, logProbs(chunks), logProbs(again), "however the text comes")

		require.Equal(t, before, logged(t, mg, id))
		require.Equal(t, wasHash, hash(t, mg, id))
		now := get(t, mg, id)
		now.LastUsed = was.LastUsed
		require.Equal(t, was, now)
		require.NoError(t, mg.Delete(Caller{}, id))
	})
}

// Another request feeds the session as soon as the text is scored. The summary describes the
// session before that request.
func TestReadTextReportsUnchangedSession(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, "before")
	was := get(t, mg, id)
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	var begun atomic.Bool
	mg.engine.clock.read = func() time.Time {
		stack := make([]byte, 1<<12)
		stack = stack[:runtime.Stack(stack, false)]
		if begun.Load() && strings.Contains(string(stack), ").dryRun(") {
			soon(t, "the other text is fed", func() bool { return s.seen().offset > was.Offset })
		}
		return time.Now()
	}
	done := make(chan error, 1)
	sum, err := mg.Score(background, Caller{}, id, strings.NewReader("text"),
		ScoreOptions{Learn: LearnFalse}, func(Chunk) error {
			go func() {
				_, err := feedLines(mg, id, "other", ScoreOptions{})
				done <- err
			}()
			soon(t, "the other request waits", func() bool { return len(s.feeding) == 1 })
			begun.Store(true)
			return nil
		})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, was.Offset, sum.Offset)
	require.Equal(t, was.Tally, sum.Total)
}

func TestReadTextIsScoredAsEchoedPrompt(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(5*testChunk+3))
	text := logText(3*testChunk + 5)
	chunks, _ := readText(t, mg, id, text)
	var echoed []float64
	r := BatchRequest{Prompts: [][]byte{[]byte(text)}, N: 1, Echo: true, LogProbs: true}
	err := mg.CompleteBatch(context.Background(), Caller{}, id, r, func(p Piece) error {
		echoed = append(echoed, p.LogProbs...)
		return nil
	})
	require.NoError(t, err)
	require.InDeltaSlice(t, echoed, logProbs(chunks), 1e-5)
}

// Text that is scored without learning gets the same scores as text that is fed, up to the end of
// the first chunk.
func TestReadTextIsScoredAsLearnedUpToEndOfChunk(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	score(t, mg, id, logText(4*testChunk+3))
	text := logText(testChunk - 4)
	read, _ := readText(t, mg, id, text)
	learnt, _ := score(t, mg, id, text)
	for i := range read {
		read[i].Elapsed, learnt[i].Elapsed = 0, 0
	}
	require.Equal(t, learnt, read)
}

func TestUnreadableTextChangesNothing(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, "abc")
	read := func(o ScoreOptions, emit func(Chunk) error, body *strings.Reader) error {
		o.Learn = LearnFalse
		_, err := mg.Score(context.Background(), Caller{}, id, body, o, emit)
		return err
	}
	var far *OffsetError
	require.ErrorAs(t, read(ScoreOptions{Offset: ptr(int64(4))}, noChunks, strings.NewReader("x")),
		&far)
	var long *TooLongError
	tooLong := strings.NewReader(strings.Repeat("x", UnlearntBytesMax+1))
	require.ErrorAs(t, read(ScoreOptions{}, noChunks, tooLong), &long)
	gone := errors.New("the client is gone")
	leaves := func(Chunk) error { return gone }
	require.ErrorIs(t, read(ScoreOptions{}, leaves, strings.NewReader("x")), gone)

	var body *BodyError
	o := ScoreOptions{Learn: LearnFalse}
	_, err := mg.Score(context.Background(), Caller{}, id, iotest.ErrReader(gone), o, noChunks)
	require.ErrorAs(t, err, &body)
	require.Equal(t, int64(3), body.Offset)

	deletes := func(Chunk) error { return mg.Delete(Caller{}, id) }
	err = read(ScoreOptions{}, deletes, strings.NewReader(logText(3*testChunk)))
	require.ErrorIs(t, err, ErrNotFound)
}
