package session

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

func TestSessionIsFunctionOfItsBytesAlone(t *testing.T) {
	m := testModel(t)
	managers := map[int]*Manager{1: newManager(t, Options{Threads: 1}),
		2: newManager(t, Options{Threads: 2}), 5: newManager(t, Options{Threads: 5})}
	rapid.Check(t, func(t *rapid.T) {
		mg := managers[rapid.SampledFrom([]int{1, 2, 5}).Draw(t, "threads")]
		n := rapid.IntRange(1, 4).Draw(t, "sessions at once")
		type one struct {
			request CreateRequest
			text    string
			calls   [][]string
			id      string
			chunks  []Chunk
		}
		sessions := make([]one, n)
		for i := range sessions {
			s := &sessions[i]
			s.request = drawRequest(t)
			s.text = logText(rapid.IntRange(0, 150).Draw(t, "bytes"))
			for _, call := range cut(t, s.text, 90) {
				s.calls = append(s.calls, cut(t, call, 45))
			}
			s.id = create(t, mg, s.request)
		}
		var wait sync.WaitGroup
		for i := range sessions {
			s := &sessions[i]
			wait.Go(func() {
				for _, body := range s.calls {
					chunks, _ := scoreBody(t, mg, s.id, (*reads)(&body))
					s.chunks = append(s.chunks, chunks...)
				}
			})
		}
		wait.Wait()
		for _, s := range sessions {
			want, wantLogProbs := alone(t, m, s.request, s.text)
			require.Equal(t, wantLogProbs, logProbs(s.chunks))
			require.Equal(t, want.Hash(), hash(t, mg, s.id))
			checkTotals(t, s.request, s.chunks, want, get(t, mg, s.id))
			require.NoError(t, mg.Delete(Caller{}, s.id))
		}
	})
}

// checkTotals compares the totals and offsets in chunks with a stream that was fed the same text at
// once.
func checkTotals(t *rapid.T, r CreateRequest, chunks []Chunk, want *stream.Stream, info Info) {
	var offset int64
	for _, c := range chunks {
		require.Equal(t, offset, c.Offset)
		require.Equal(t, uint64(offset)/uint64(r.Settings["chunk"].(int)), c.Step)
		offset += c.Bytes
		require.Equal(t, offset, c.Total.Bytes)
		require.LessOrEqual(t, offset, int64(c.Step+1)*int64(r.Settings["chunk"].(int)),
			"never across the border of a chunk")
		require.Equal(t, offset%int64(r.Settings["chunk"].(int)) == 0, c.Complete)
		require.Equal(t, r.Settings["baseline"] == true, c.BaselineBits != nil)
	}
	if len(chunks) > 0 {
		last := chunks[len(chunks)-1]
		require.Equal(t, want.Tally.Bits, last.Total.Bits, "to the bit")
	}
	require.Equal(t, want.Tally.Bytes, info.Offset)
	require.Equal(t, want.Tally.Bits, info.Bits)
	require.Equal(t, len(want.Pending), info.Pending)
	if r.Settings["baseline"] == true {
		require.Equal(t, want.Baseline.Bits, *info.BaselineBits)
	}
}

func TestSumOfCallDoesNotDependOnItsPieces(t *testing.T) {
	mg := newManager(t, Options{})
	text := logText(100)
	r := CreateRequest{Settings: Settings{"baseline": true}}
	_, whole := score(t, mg, create(t, mg, r), text)
	_, bytewise := scoreBody(t, mg, create(t, mg, r), bytewiseBody(text))
	require.Equal(t, 7, whole.Chunks)
	require.Equal(t, 100, bytewise.Chunks)
	bytewise.Chunks, bytewise.Elapsed = whole.Chunks, whole.Elapsed
	require.Equal(t, whole, bytewise)
	require.Equal(t, whole.Bits, whole.Total.Bits)
	require.Equal(t, int64(100), whole.Offset)
	require.Equal(t, uint64(100/testChunk), whole.Updates)

	r.Settings["companion"] = false
	_, alone := score(t, mg, create(t, mg, r), text)
	require.Nil(t, alone.NetworkBits)
	require.Equal(t, alone.Bits, *whole.NetworkBits, "it tells what it would be without companion")
}

func bytewiseBody(text string) *reads {
	body := reads(strings.Split(text, ""))
	return &body
}

func TestLaterByteNeverChangesEarlierScore(t *testing.T) {
	mg := newManager(t, Options{})
	text := logText(80)
	chunks, _ := score(t, mg, create(t, mg, CreateRequest{}), text)
	want := logProbs(chunks)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "changed byte")
		other := []byte(text)
		other[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		id := create(t, mg, CreateRequest{})
		chunks, _ := score(t, mg, id, string(other))
		got := logProbs(chunks)
		require.Equal(t, want[:at], got[:at])
		require.NotEqual(t, want[at:], got[at:])
		require.NoError(t, mg.Delete(Caller{}, id))
	})
}

func TestProbabilitiesSumToOneInAnAdaptedSession(t *testing.T) {
	mg := newManager(t, Options{})
	w := stream.NewWorker(mg.engine.models[0].Model, 1)
	defer w.Close()
	id := create(t, mg, CreateRequest{})
	for _, piece := range []string{logText(5), logText(30), logText(61), logText(9)} {
		score(t, mg, id, piece)
		withSession(t, mg, id, func(s *session) {
			var sum float64
			for b := range 256 {
				sum += math.Exp(-float64(w.Score(s.stream, []byte{byte(b)}).NLL[0]))
			}
			require.InDelta(t, 1, sum, 2e-6, "256 terms of float32 accuracy, at offset %d",
				s.stream.Tally.Bytes)
		})
	}
	require.NotZero(t, get(t, mg, id).Step)
}

func TestNothingWrittenIsStaticToTheBit(t *testing.T) {
	mg := newManager(t, Options{})
	text := logText(120)
	scored := func(set Settings) ([]Chunk, Summary) {
		set["companion"] = false
		return score(t, mg, create(t, mg, CreateRequest{Settings: set}), text)
	}
	static, _ := scored(Settings{"method": MethodStatic})
	never, sum := scored(Settings{"p": 0., "baseline": true})
	require.Equal(t, logProbs(static), logProbs(never))
	require.Equal(t, sum.Total.Bits, *sum.Total.BaselineBits)
	require.Equal(t, sum.Bits, *sum.BaselineBits)
	require.Equal(t, uint64(7), sum.Updates, "made, though nothing was written")
	for _, c := range never {
		require.Zero(t, c.Written)
		require.Zero(t, c.FastRMS)
	}
	adapted, sum := scored(Settings{"baseline": true})
	require.NotEqual(t, logProbs(static), logProbs(adapted))
	require.Equal(t, static[len(static)-1].Total.Bits, *sum.Total.BaselineBits,
		"the baseline is the static model")
	require.NotZero(t, adapted[1].Written)
	require.NotZero(t, adapted[1].FastRMS)
	require.Zero(t, adapted[0].FastRMS)
}

func TestEventComesAfterItsLogAndBeforeItsUpdate(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	updates := uint64(0)
	_, err = mg.Score(context.Background(), Caller{}, id, strings.NewReader(logText(5*testChunk)),
		ScoreOptions{}, func(c Chunk) error {
			// Feeding the session waits for this function, so nothing changes meanwhile.
			require.Len(t, logged(t, mg, id), int(c.Total.Bytes), "the text is in the log")
			require.Equal(t, c.Total.Bytes, get(t, mg, id).Offset,
				"what was acknowledged is what a client finds")
			require.True(t, c.Complete)
			require.Equal(t, testChunk, len(s.stream.Pending), "full and not settled")
			require.Equal(t, updates, c.Updates)
			require.Equal(t, updates, s.stream.Fast.Step)
			updates++
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, updates, get(t, mg, id).Step)
}

func TestWhatTheBodyHasIsScoredAtOnce(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	body, client := io.Pipe()
	events := make(chan Chunk)
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{},
			func(c Chunk) error { events <- c; return nil })
		done <- err
	}()
	text := logText(40)
	_, err := io.WriteString(client, text[:5])
	require.NoError(t, err)
	c := <-events // The chunk arrives before the client writes more text.
	require.EqualValues(t, 5, c.Bytes)
	require.False(t, c.Complete)
	go func() { _, _ = io.WriteString(client, text[5:]); client.Close() }()
	var sizes []int
	for range 3 {
		sizes = append(sizes, int((<-events).Bytes))
	}
	require.Equal(t, []int{testChunk - 5, testChunk, 40 - 2*testChunk}, sizes)
	require.NoError(t, <-done)
}

func TestFastBodyGetsFullChunks(t *testing.T) {
	mg := newManager(t, Options{})
	chunks, sum := score(t, mg, create(t, mg, CreateRequest{}), logText(10*testChunk+3))
	require.Len(t, chunks, 11)
	require.Equal(t, 11, sum.Chunks)
	for _, c := range chunks[:10] {
		require.True(t, c.Complete)
	}
	require.EqualValues(t, 3, chunks[10].Bytes)
}

func TestEmptyBodyChangesNothing(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	before := hash(t, mg, id)
	chunks, sum := score(t, mg, id, "")
	require.Empty(t, chunks)
	require.Equal(t, before, hash(t, mg, id))
	require.Zero(t, sum.Offset)
	require.Equal(t, 0., *sum.BaselineBits)
}

type unread struct{ t fatal }

func (u unread) Read([]byte) (int, error) {
	require.Fail(u.t, "the body was read")
	return 0, io.EOF
}

func TestWrongOffsetChangesNothingAndReadsNothing(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(21))
	before, info := hash(t, mg, id), get(t, mg, id)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Filter(func(v int64) bool { return v != 21 }).Draw(t, "offset")
		_, err := mg.Score(context.Background(), Caller{}, id, unread{t},
			ScoreOptions{Offset: &want}, nil)
		var conflict *OffsetError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, OffsetError{Have: 21, Want: want}, *conflict)
		require.Equal(t, info, get(t, mg, id))
		require.Equal(t, before, hash(t, mg, id))
	})
	_, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader("more"),
		ScoreOptions{Offset: ptr(int64(21))}, noChunks)
	require.NoError(t, err)
	require.Equal(t, int64(25), get(t, mg, id).Offset)
}

func TestLeavingClientLeavesSessionSettled(t *testing.T) {
	text := logText(5 * testChunk)
	mg := newManager(t, Options{})
	gone := errors.New("broken pipe")
	for name, fail := range map[string]func(cancel func()) error{
		"emit fails":             func(func()) error { return gone },
		"the context is done":    func(cancel func()) error { cancel(); return nil },
		"emit panics (as http!)": func(func()) error { panic(gone) },
	} {
		t.Run(name, func(t *testing.T) {
			id := create(t, mg, CreateRequest{})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			events := 0
			call := func() (sum Summary, err error) {
				defer func() {
					if recover() != nil {
						err = gone
					}
				}()
				return mg.Score(ctx, Caller{}, id, strings.NewReader(text), ScoreOptions{},
					func(Chunk) error {
						if events++; events == 3 {
							return fail(cancel)
						}
						return nil
					})
			}
			_, err := call()
			require.Error(t, err)
			require.Equal(t, 3, events)
			requireFed(t, mg, id, text[:3*testChunk], "accepted and settled, and nothing after")
			score(t, mg, id, text[3*testChunk:])
			requireFed(t, mg, id, text)
		})
	}
}

// cutOff is a request body that ends with an error.
type cutOff struct {
	text string
	err  error
	with bool // whether Read returns the error together with the last bytes
}

func (c *cutOff) Read(p []byte) (int, error) {
	n := copy(p, c.text)
	c.text = c.text[n:]
	if n == 0 || c.with && c.text == "" {
		return n, c.err
	}
	return n, nil
}

func TestBrokenBodyLeavesWhatArrived(t *testing.T) {
	mg := newManager(t, Options{})
	for _, with := range []bool{false, true} {
		id := create(t, mg, CreateRequest{})
		text := logText(testChunk + 7)
		sum, err := mg.Score(context.Background(), Caller{}, id, &cutOff{text, io.ErrUnexpectedEOF,
			with}, ScoreOptions{}, noChunks)
		var broken *BodyError
		require.ErrorAs(t, err, &broken)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, int64(len(text)), broken.Offset)
		require.Equal(t, int64(len(text)), sum.Offset)
		requireFed(t, mg, id, text)
	}
	id := create(t, mg, CreateRequest{})
	_, err := mg.Score(context.Background(), Caller{}, id, &cutOff{err: nil}, ScoreOptions{}, nil)
	require.ErrorIs(t, err, io.ErrNoProgress, "a reader that gives nothing for ever")
}

func TestMemoryStaysFlatWhileMegabytesAreFed(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 2, NHead: 1, DHead: 2, DInner: 2,
		Vocab: 256, SegLen: 32})
	require.NoError(t, err)
	m, err := model.New("fast", lm, nil, 32, nil)
	require.NoError(t, err)
	mg := newManagerOf(t, m, Options{Threads: 1})
	// A session without a companion has a small state.
	id := create(t, mg, CreateRequest{Settings: Settings{"companion": false}})
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // The first call does not empty each sync.Pool completely.
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	var early, records int64
	_, err = mg.Score(context.Background(), Caller{}, id, io.LimitReader(endless{}, fedBytes),
		ScoreOptions{}, func(c Chunk) error {
			if early == 0 {
				early = heap()
			}
			records++
			return nil
		})
	require.NoError(t, err)
	log := get(t, mg, id).MemoryBytes
	require.InDelta(t, fedBytes+records*recordBytes, log, 128<<10)
	require.Less(t, heap()-early, log+128<<10, "the log, which is accounted for, and nothing "+
		"else that grows with the text")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, "all work and no play makes jack a dull boy\n"), nil
}
