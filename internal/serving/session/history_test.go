package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func TestTextIsThatOfTheSession(t *testing.T) {
	mg := newManager(t, Options{})
	rapid.Check(t, func(rt *rapid.T) {
		id, text := create(rt, mg, drawRequest(rt)),
			logText(rapid.IntRange(0, 90).Draw(rt, "bytes"))
		for _, piece := range cut(rt, text, 20) {
			score(rt, mg, id, piece)
		}
		offset := rapid.IntRange(0, len(text)).Draw(rt, "offset")
		length := rapid.IntRange(1, 100).Draw(rt, "length")
		part, err := mg.Text(background, Caller{}, id, int64(offset), int64(length))
		require.NoError(rt, err)
		require.Equal(rt, text[offset:min(len(text), offset+length)], string(part.Text))
		require.EqualValues(rt, len(text), part.End)
		require.Zero(rt, part.From)
		_, err = mg.Text(background, Caller{}, id, int64(len(text)+1), 1)
		require.Equal(rt, &OffsetError{Have: int64(len(text)), Want: int64(len(text) + 1)}, err)
	})
}

// Past scores cover the text without gaps and add up to the session's totals. Their number is at
// most the requested number.
func TestPastScoresAreWhatTheTextHasCost(t *testing.T) {
	for name, mg := range map[string]*Manager{
		"bytes": newManager(t, Options{}),
		"words": newManagerOf(t, wordModel(t), Options{}),
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { checkPast(rt, mg) }) })
	}
}

func checkPast(t *rapid.T, mg *Manager) {
	r := drawRequest(t)
	if mg.engine.models[0].Model.OfWords() {
		r.Settings["chunk"] = testChunk
	}
	id, text := create(t, mg, r), wordText(rapid.IntRange(1, 300).Draw(t, "bytes"))
	var ends []int64
	tally := map[int64]Tally{0: get(t, mg, id).Tally}
	for _, piece := range cut(t, text, 60) {
		chunks, _ := score(t, mg, id, piece)
		for _, c := range chunks {
			ends = append(ends, c.end())
			tally[c.end()] = c.Total
		}
	}
	points := rapid.IntRange(1, 8).Draw(t, "points")
	h, err := mg.Scores(background, Caller{}, id, 0, PastBytesMax, points)
	require.NoError(t, err)
	total := get(t, mg, id)
	require.LessOrEqual(t, len(h.Scores), points)
	require.Equal(t, []int64{0, total.Offset, total.Offset}, []int64{h.From, h.Next, h.End})
	var sum Tally
	for _, p := range h.Scores {
		require.Equal(t, sum.Bytes, p.Offset)
		sum.Bytes, sum.Tokens, sum.Bits = sum.Bytes+p.Bytes, sum.Tokens+p.Tokens, sum.Bits+p.Bits
		require.Equal(t, total.BaselineBits == nil, p.BaselineBits == nil)
	}
	require.Equal(t, []int64{total.Bytes, total.Tokens}, []int64{sum.Bytes, sum.Tokens})
	require.InDelta(t, total.Bits, sum.Bits, 1e-6)

	offset := rapid.Int64Range(0, total.Offset).Draw(t, "offset")
	length := rapid.Int64Range(1, 100).Draw(t, "length")
	h, err = mg.Scores(background, Caller{}, id, offset, length, 4096)
	require.NoError(t, err)
	at := total.Offset
	for _, end := range append([]int64{0}, ends...) {
		if end >= offset {
			at = min(at, end)
		}
	}
	if len(h.Scores) == 0 {
		require.True(t, h.Next == at || offset == total.Offset, "%d %d %d", offset, at, h.Next)
		return
	}
	require.Equal(t, tally[at].Bytes, h.Scores[0].Offset)
	last := h.Scores[len(h.Scores)-1]
	require.Equal(t, tally[h.Next].Bytes, last.Offset+last.Bytes)
	require.True(t, h.Next >= min(total.Offset, at) && h.Next > offset)
}

// A fork begins within a record of the original session. The fork has no totals for its last record
// until its first use.
func TestPastOfForkCutWithinPiece(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	const cut = testChunk + 3
	score(t, sv.mg, id, logText(3*testChunk))
	sv.restart()
	sv.mg.engine.forkRecovery = 1 // so that Fork does not compute the state
	fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: ptr(int64(cut))})
	require.NoError(t, err)
	past := func(offset int64) History {
		h, err := sv.mg.Scores(background, Caller{}, fork.ID, offset, PastBytesMax, 1)
		require.NoError(t, err)
		return h
	}
	h := past(0)
	require.Equal(t, []int64{testChunk, cut}, []int64{h.Next, h.End})
	h = past(h.Next)
	require.Empty(t, h.Scores)
	require.EqualValues(t, testChunk, h.Next)
	withSession(t, sv.mg, fork.ID, func(*session) {})
	h = past(0)
	require.EqualValues(t, cut, h.Next)
	require.Len(t, h.Scores, 1)
	require.Equal(t, get(t, sv.mg, fork.ID).Tally, h.Scores[0].Tally)
	require.False(t, h.Scores[0].Time.Before(fork.Created.Truncate(time.Millisecond)))
}

func TestTrimmedPastIsReported(t *testing.T) {
	store, err := folder.Open(t.TempDir(), folder.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	mg := newManager(t, Options{Store: store, Report: func(err error) { t.Error(err) },
		ReplayMax: 1})
	id, text := create(t, mg, CreateRequest{History: HistoryTail}), logText(10*testChunk)
	score(t, mg, id, text)
	var gone *TrimmedError
	_, err = mg.Text(background, Caller{}, id, 0, 10)
	require.ErrorAs(t, err, &gone)
	require.Equal(t, "offset", gone.Field)
	_, err = mg.Scores(background, Caller{}, id, 0, 10, 1)
	require.ErrorAs(t, err, &gone)
	found, err := store.Get(background, id)
	require.NoError(t, err)
	require.Positive(t, found.Start)
	part, err := mg.Text(background, Caller{}, id, found.Start, 1000)
	require.NoError(t, err)
	require.Equal(t, text[found.Start:], string(part.Text))
	require.Equal(t, found.Start, part.From)
	h, err := mg.Scores(background, Caller{}, id, found.Start, 1000, 10)
	require.NoError(t, err)
	require.EqualValues(t, len(text), h.Next)
}

// If old scores are not stored, a client can compute them again. It forks the session at an offset
// and feeds the text that follows. The fork reports the same bits.
func TestForkRepeatsPast(t *testing.T) {
	mg := newManager(t, Options{})
	id, text := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}}),
		logText(5*testChunk+3)
	detail := func(id, text string) (top [][]Candidate, base []float64, updates []Update) {
		o := ScoreOptions{LogProbs: true, Top: 2, Updated: func(u Update) error {
			u.Elapsed = 0
			updates = append(updates, u)
			return nil
		}}
		_, err := mg.Score(background, Caller{}, id, strings.NewReader(text), o,
			func(c Chunk) error {
				top, base = append(top, c.Top...), append(base, c.BaselineLogProbs...)
				return nil
			})
		require.NoError(t, err)
		return top, base, updates
	}
	const at = 2*testChunk + 5
	top, base, updates := detail(id, text)
	fork, err := mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: ptr(int64(at))})
	require.NoError(t, err)
	part, err := mg.Text(background, Caller{}, id, at, TextBytesMax)
	require.NoError(t, err)
	topAgain, baseAgain, updatesAgain := detail(fork.ID, string(part.Text))
	require.Equal(t, top[at:], topAgain)
	require.Equal(t, base[at:], baseAgain)
	require.Equal(t, updates[2:], updatesAgain)
}

// The static model, without adaptation, continues a session's text. The log-probabilities of the
// sampled text equal the baseline's log-probabilities.
func TestCompletionFromStaticModel(t *testing.T) {
	mg := newManager(t, Options{})
	for _, method := range []string{MethodSparseMeta, MethodDynamicRMS, MethodCache} {
		id := create(t, mg, CreateRequest{Settings: Settings{"method": method, "baseline": true}})
		score(t, mg, id, logText(5*testChunk+3))
		before := hash(t, mg, id)
		r := CompleteRequest{
			Prompt: []byte("GET /"), MaxTokens: 20, Temperature: ptr(0.), LogProbs: true,
			From: FromStatic,
		}
		done, pieces := complete(t, mg, id, r)
		require.Equal(t, before, hash(t, mg, id))
		r.From = FromAdapted
		_, adapted := complete(t, mg, id, r)
		var base []float64
		o := ScoreOptions{LogProbs: true, Learn: LearnFalse}
		text := "GET /" + string(done.Text)
		_, err := mg.Score(background, Caller{}, id, strings.NewReader(text), o,
			func(c Chunk) error {
				base = append(base, c.BaselineLogProbs...)
				return nil
			})
		require.NoError(t, err)
		_, said := joined(pieces)
		require.InDeltaSlice(t, base[5:], said, 2e-6)
		_, other := joined(adapted)
		require.NotEqual(t, said, other)
	}
	id := create(t, mg, CreateRequest{})
	var wrong *FieldError
	for _, from := range []string{FromStatic, "elsewhere"} {
		_, err := mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 1, From: from},
			noPieces)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "from", wrong.Field)
	}
	alone := Settings{"method": MethodStatic, "companion": false}
	id = create(t, mg, CreateRequest{Settings: alone})
	score(t, mg, id, logText(40))
	r := CompleteRequest{MaxTokens: 9, Temperature: ptr(0.)}
	same, _ := complete(t, mg, id, r)
	r.From = FromStatic
	static, _ := complete(t, mg, id, r)
	require.Equal(t, same.Text, static.Text)
}
