package session

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
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

// wordText returns a text of the given number of bytes. The text may end within a word.
func wordText(bytes int) string { return modeltest.WordText(bytes)[:bytes] }

// twin returns the state of a session that was fed the whole text in one request and was not used
// otherwise.
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

// requireTwin requires that a session equals a session that was fed the same text in one request.
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

func drawWay(t *rapid.T, r CreateRequest) ScoreOptions {
	if r.Settings["method"] == MethodCache || rapid.Bool().Draw(t, "plain") {
		return ScoreOptions{Lines: rapid.Bool().Draw(t, "lines")}
	}
	return ScoreOptions{Lines: true, Learn: LearnUnflagged, Threshold: 0.9}
}

// A session of words equals a session that was fed the same text in one request. This holds after
// any operation, for any split of the text into requests, for forks at any offset and for imports.
func TestSessionOfWordsIsFunctionOfItsText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newWordServer(rt, tempDir(t, rt), Options{
			ReplayMax:     rapid.SampledFrom([]time.Duration{1, time.Hour}).Draw(rt, "replay"),
			ForkSnapshots: rapid.IntRange(0, 4).Draw(rt, "fork snapshots"),
		})
		defer func() { sv.stop() }()
		r := drawRequest(rt)
		if r.Settings["chunk"] == 1 {
			r.Settings["chunk"] = 2 // the smallest chunk allowed for words
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
				info, err := sv.mg.Import(background, Caller{},
					bytes.NewReader(export(rt, sv.mg, id)), "")
				require.NoError(rt, err)
				if rapid.Bool().Draw(rt, "at the import") {
					require.NoError(rt, sv.mg.Delete(Caller{}, id))
					id = info.ID
				} else {
					requireTwin(rt, sv.mg, info.ID, r, way, text[:fed])
				}
			case "fork":
				if r.History == HistoryTail {
					// with HistoryTail the session may no longer have the text at this offset
					break
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

// The totals, lines and state of a session of words must be bit-identical to a golden file. There
// is one golden file for each kind of arithmetic; see TestGoldenLinesUnderOneAndManyThreads.
func TestGoldenWordsUnderOneAndManyThreads(t *testing.T) {
	requireGolden(t, "words", func(threads int) []byte {
		mg := newManagerOf(t, wordModel(t), Options{Threads: threads})
		return goldenRun(t, mg, wordText(1500))
	})
}

func sampled(t fatal, mg *Manager, id string, r CompleteRequest) (done Completion, words []int32) {
	t.Helper()
	done, pieces := complete(t, mg, id, r)
	requireTiled(t, pieces)
	for _, p := range pieces {
		words = append(words, p.Words.IDs...)
		require.Len(t, p.LogProbs, len(p.Words.IDs))
	}
	return done, words
}

// requireTiled requires that the words of the pieces cover their text without gaps or overlaps.
func requireTiled(t fatal, pieces []Piece) {
	t.Helper()
	text, words := 0, int64(0)
	for _, p := range pieces {
		text += len(p.Text)
		words += p.Words.Size()
		require.LessOrEqual(t, words, int64(text), "a word is told with its last byte")
	}
	require.EqualValues(t, text, words)
}

// A completion is a function of the session's text and the prompt. The committed text consists of
// the sampled words, separated by single spaces.
func TestCompletionOfWordsIsFedAsItIsPrinted(t *testing.T) {
	m := wordModel(t)
	mg := newManagerOf(t, m, Options{Threads: 2})
	w := stream.NewWorker(m, 1)
	defer w.Close()
	rapid.Check(t, func(t *rapid.T) {
		text := wordText(rapid.IntRange(0, 300).Draw(t, "bytes"))
		prompt := wordText(400)[300 : 300+rapid.IntRange(0, 100).Draw(t, "prompt")]
		seed, n := uint64(7), rapid.IntRange(1, 40).Draw(t, "tokens")
		r := CreateRequest{Seed: ptr(uint64(3))}
		id := create(t, mg, r)
		score(t, mg, id, text)
		request := CompleteRequest{
			Prompt: []byte(prompt), MaxTokens: n, Seed: &seed, LogProbs: true, Top: 2,
		}
		done, words := sampled(t, mg, id, request)
		require.Len(t, words, n)
		require.NotContains(t, words, m.Tokenizer.Unknown())
		require.NotContains(t, string(done.Text), "  ")

		s, _ := alone(t, m, r, text)
		s = s.Frozen()
		w.Feed(s, []byte(prompt), nil)
		var want []byte
		var ids []int32
		sampler := txl.NewSampler(txl.Sampling{
			Temperature: 1, Seed: seed, Dry: txl.DryDefault, TokenSize: wordSize,
		}, m.Tokenizer.Vocab())
		w.Sample(s, sampler, func(to stream.Token) bool {
			want, ids = append(want, to.Text...), append(ids, to.ID)
			return len(ids) < n
		})
		require.Equal(t, string(want), string(done.Text))
		require.Equal(t, ids, words)

		request.Commit = CommitAll
		done, _ = sampled(t, mg, id, request)
		all, _ := alone(t, m, r, text+prompt+string(done.Text))
		require.Equal(t, all.Hash(), hash(t, mg, id))
		require.NoError(t, mg.Delete(Caller{}, id))
	})
}

// An echoed prompt has a score for each of its words, including the last word, which is taken as
// complete. The words of all pieces cover the text.
func TestBatchOfWordsEchoesItsPrompts(t *testing.T) {
	m := wordModel(t)
	mg := newManagerOf(t, m, Options{})
	w := stream.NewWorker(m, 1)
	defer w.Close()
	rapid.Check(t, func(t *rapid.T) {
		prompt := wordText(300)[:rapid.IntRange(0, 200).Draw(t, "prompt")]
		r := BatchRequest{
			Prompts: [][]byte{[]byte(prompt), []byte("the cat")}, N: 2, Echo: true, LogProbs: true,
			MaxTokens: rapid.IntRange(0, 20).Draw(t, "tokens"), Seed: ptr(uint64(1)),
		}
		texts := batch(t, mg, "", r)
		s := stream.New(m, stream.DefaultsFor(m, stream.Static))
		want := []float64{}
		w.Feed(s, []byte(prompt), func(_ []byte, scores stream.Scores) {
			for _, nll := range scores.NLL {
				want = append(want, -float64(nll))
			}
		})
		n := len(want)
		if s.MidWord() {
			n++
		}
		for i, pieces := range texts {
			text, logProbs := joined(pieces)
			require.True(t, strings.HasPrefix(text, string(r.Prompts[i/2])))
			if r.MaxTokens > 0 {
				requireTiled(t, pieces)
			}
			if i < 2 {
				require.Equal(t, want, append([]float64{}, logProbs[:len(want)]...))
				require.Len(t, logProbs, n+r.MaxTokens)
			}
		}
	})
}

func TestWordsEndBeforeAStopString(t *testing.T) {
	mg := newManagerOf(t, wordModel(t), Options{})
	id := create(t, mg, CreateRequest{})
	request := CompleteRequest{MaxTokens: 60, Seed: ptr(uint64(2)), LogProbs: true}
	whole, _ := sampled(t, mg, id, request)
	for at := 3; at+4 < len(whole.Text); at++ {
		request.Stop = []string{string(whole.Text[at : at+4])}
		if !utf8.ValidString(request.Stop[0]) {
			continue
		}
		done, _ := sampled(t, mg, id, request)
		first := strings.Index(string(whole.Text), request.Stop[0])
		require.Equal(t, string(whole.Text[:first]), string(done.Text))
		require.Equal(t, FinishStop, done.FinishReason)
	}
}

func TestTokensOfPromptsOfWordsAreCounted(t *testing.T) {
	mg := newManagerOf(t, wordModel(t), Options{})
	id := create(t, mg, CreateRequest{})
	for prompt, want := range map[string]int{"": 0, "the": 1, "the cat ": 2, "the cat\n": 3} {
		done, _ := complete(t, mg, id, CompleteRequest{Prompt: []byte(prompt), MaxTokens: 1})
		require.Equal(t, want, done.PromptTokens, prompt)
	}
	require.Equal(t, tokenizer.KindWords, mg.Model().Tokenizer)
}

// A completion that commits is refused before it begins unless the disk has space for all of its
// records. The test tries many disk limits.
func TestCompletionOfWordsIsCommittedWholeOrNotAtAll(t *testing.T) {
	sv := newWordServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	request := CompleteRequest{
		// Each newline is a token, so this prompt has as many tokens as bytes.
		Prompt: []byte(strings.Repeat("\n", 400)), MaxTokens: 1, Commit: CommitPrompt,
	}
	refused := 0
	for limit := int64(16_000); ; limit += 4000 {
		who := Caller{Key: fmt.Sprint(limit), MaxDisk: limit}
		made, err := sv.mg.Create(background, who, CreateRequest{
			Settings: Settings{"method": MethodStatic, "chunk": 2},
		})
		require.NoError(t, err)
		_, err = sv.mg.Complete(background, who, made.ID, request, noPieces)
		info, missing := sv.mg.Get(who, made.ID)
		require.NoError(t, missing)
		if err == nil {
			require.EqualValues(t, len(request.Prompt), info.Offset)
			break
		}
		require.ErrorAs(t, err, new(*DiskLimitError))
		require.Zero(t, info.Offset)
		refused++
	}
	require.Greater(t, refused, 3)
}

// A session whose stored word counts are impossible for its text is refused when it is loaded.
// Otherwise NaN could reach a client, and JSON cannot represent NaN.
func TestSessionWithBrokenAccountOfWordsIsRefused(t *testing.T) {
	for _, w := range []storage.Words{
		{UnknownBits: math.NaN()}, {UnknownBaseline: math.Inf(1)}, {Bytes: 11},
		{Bytes: 9, Tokens: 10},
	} {
		h := &head{Settings: stream.DefaultsFor(wordModel(t), stream.Static)}
		err := h.checkEnd(storage.Session{End: 10, Last: &storage.Record{Words: &w}})
		require.ErrorContains(t, err, "the last record has the word counts")
	}
}
