package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/model/modeltest"
)

func wordModel(t fatal) *model.Model {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return m
}

func newWordServer(t fatal, dir string, o Options) *server {
	sv := &server{t: t, dir: dir, options: o, model: wordModel(t)}
	sv.start()
	return sv
}

// wordText is a text of so many bytes, which may end anywhere.
func wordText(bytes int) string { return modeltest.WordText(bytes)[:bytes] }

// twin is what becomes of a session that is fed a text in one go, and never anything else.
func twin(t fatal, r CreateRequest, o ScoreOptions, text string) (state string, info Info) {
	t.Helper()
	mg, err := NewManager(wordModel(t), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, mg.Drain(background)) }()
	id := create(t, mg, r)
	_, err = feedLines(mg, id, text, o)
	require.NoError(t, err)
	return hash(t, mg, id), get(t, mg, id)
}

// requireTwin holds a session against its twin.
func requireTwin(t fatal, mg *Manager, id string, r CreateRequest, o ScoreOptions, text string) {
	t.Helper()
	want, info := twin(t, r, o, text)
	is := get(t, mg, id)
	require.Equal(t, info.Tally, is.Tally)
	require.Equal(t, info.PendingBytes, is.PendingBytes)
	require.Equal(t, []any{info.Step, info.Pending}, []any{is.Step, is.Pending})
	require.EqualValues(t, len(text), is.Offset)
	require.Equal(t, is.Offset, is.Bytes+is.PendingBytes)
	require.Equal(t, want, hash(t, mg, id))
}

// drawWay draws how the text of a session is scored.
func drawWay(t *rapid.T, r CreateRequest) ScoreOptions {
	if r.Settings["method"] == MethodCache || rapid.Bool().Draw(t, "plain") {
		return ScoreOptions{Lines: rapid.Bool().Draw(t, "lines")}
	}
	return ScoreOptions{Lines: true, Learn: LearnUnflagged, Threshold: 0.9}
}

// Whatever happens to a session of words, and in whatever pieces its text comes, it is the session
// that was fed its text in one go; so are its forks at any offset, and what is imported of it.
func TestASessionOfWordsIsAFunctionOfItsText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newWordServer(rt, tempDir(t, rt), Options{
			ReplayMax:     rapid.SampledFrom([]time.Duration{1, time.Hour}).Draw(rt, "replay"),
			ForkSnapshots: rapid.IntRange(0, 4).Draw(rt, "fork snapshots"),
		})
		defer func() { sv.stop() }()
		r := drawRequest(rt)
		if r.Settings["chunk"] == 1 {
			r.Settings["chunk"] = 2 // as few as words may have
		}
		r.History = rapid.SampledFrom([]string{HistoryFull, HistoryTail}).Draw(rt, "history")
		way := drawWay(rt, r)
		id := create(rt, sv.mg, r)
		text := wordText(rapid.IntRange(0, 1200).Draw(rt, "bytes"))
		fed := 0
		for _, piece := range cut(rt, text, 90) {
			switch rapid.SampledFrom([]string{"", "", "restart", "snapshot", "evict", "completion",
				"unlearnt", "fork", "import"}).Draw(rt, "what") {
			case "restart":
				was := get(rt, sv.mg, id)
				sv.restart()
				is := get(rt, sv.mg, id)
				was.MemoryBytes, was.LastUsed = 0, is.LastUsed
				require.Equal(rt, was, is, "though it is cold")
			case "snapshot":
				sv.keep(id)
			case "evict":
				sv.evict(id)
			case "completion":
				complete(rt, sv.mg, id, CompleteRequest{MaxTokens: 3, Prompt: []byte("the d")})
			case "unlearnt":
				_, err := feedLines(sv.mg, id, wordText(70), ScoreOptions{Learn: LearnFalse})
				require.NoError(rt, err)
			case "import":
				info, err := sv.mg.Import(background, Caller{}, bytes.NewReader(export(rt, sv.mg, id)), "")
				require.NoError(rt, err)
				if rapid.Bool().Draw(rt, "at the import") {
					require.NoError(rt, sv.mg.Delete(Caller{}, id))
					id = info.ID
				} else {
					requireTwin(rt, sv.mg, info.ID, r, way, text[:fed])
				}
			case "fork":
				if r.History == HistoryTail {
					break // it may not have the offset any more
				}
				at := rapid.Int64Range(0, int64(fed)).Draw(rt, "at")
				info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
				require.NoError(rt, err)
				if rapid.Bool().Draw(rt, "restart the fork") {
					sv.restart()
				}
				_, err = feedLines(sv.mg, info.ID, text[at:fed], way)
				require.NoError(rt, err)
				requireTwin(rt, sv.mg, info.ID, r, way, text[:fed])
			}
			_, err := feedLines(sv.mg, id, piece, way)
			require.NoError(rt, err)
			fed += len(piece)
		}
		requireTwin(rt, sv.mg, id, r, way, text[:fed])
		require.Empty(rt, sv.told())
	})
}
