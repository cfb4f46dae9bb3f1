package server

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func newWordsRig(t *testing.T) *realRig {
	t.Helper()
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return newRealRigOf(t, m, session.Options{Threads: 2}, Options{})
}

// prose has known and unknown words, lines, and white space of many kinds.
const prose = "the cat sat on the mat .\nA dog\u00a0barked at the cat , and  the\tcat ran .\n\n" +
	"naïve  readers sat on the mat and the dog ran to the cat .\r\nthe mat ran"

func (g *rig) chunksOf(path, text string) (chunks []api.ChunkEvent, sum api.SummaryEvent) {
	g.t.Helper()
	resp := g.text(path+"/score?logprobs=true", text, "Accept", contract.MediaEventStream)
	events := readEvents(resp).all(g.t)
	last := len(events) - 1
	for _, e := range events[:last] {
		c := as[api.ChunkEvent](g.t, e)
		require.Equal(g.t, strconv.FormatInt(c.Totals.Bytes+*c.PendingBytes, 10), e.ID,
			"where the next byte goes on")
		chunks = append(chunks, c)
	}
	sum = as[api.SummaryEvent](g.t, events[last])
	require.Equal(g.t, strconv.FormatInt(sum.Offset, 10), events[last].ID)
	return chunks, sum
}

// chunkWhole combines all events of one chunk.
type chunkWhole struct {
	offset, bytes, chars, tokens, unknown, unknownBytes int64
	logProbs                                            []float64
	complete                                            bool
}

// wholes combines the events of each chunk. All events together must cover the text without gaps.
func wholes(t require.TestingT, events []api.ChunkEvent) map[uint64]chunkWhole {
	all, at := map[uint64]chunkWhole{}, int64(0)
	for _, e := range events {
		w, more := all[e.Step]
		require.Equal(t, at, e.Offset)
		if !more {
			w.offset = e.Offset
		}
		require.Len(t, e.Logprobs, int(e.Tokens))
		w.bytes, w.chars, w.tokens = w.bytes+e.Bytes, w.chars+e.Chars, w.tokens+e.Tokens
		w.unknown, w.unknownBytes = w.unknown+*e.Unknown, w.unknownBytes+*e.UnknownBytes
		w.logProbs = append(w.logProbs, e.Logprobs...)
		w.complete = e.Complete
		all[e.Step] = w
		at += e.Bytes
	}
	return all
}

func TestTextOfWordsMayBeCutAnywhere(t *testing.T) {
	g := newWordsRig(t)
	text := strings.Repeat(prose, 3)
	const made = `{"seed":3,"settings":{"chunk":16,"baseline":true}}`
	whole := g.create(made)
	events, sum := g.chunksOf(whole, text)
	want, state := wholes(t, events), g.state(t, whole)
	require.EqualValues(t, len(text), sum.Offset)
	require.EqualValues(t, len("ran")+1, *sum.PendingBytes, "and the space before it")
	require.Equal(t, sum.Offset, sum.Bytes+*sum.PendingBytes)
	require.Positive(t, *sum.Unknown)
	rapid.Check(t, func(rt *rapid.T) {
		cut := g.create(made)
		var all []api.ChunkEvent
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(40, len(rest))).Draw(rt, "bytes")
			events, sum := g.chunksOf(cut, rest[:n])
			require.EqualValues(rt, len(text)-len(rest)+n, sum.Offset)
			all, rest = append(all, events...), rest[n:]
		}
		require.Equal(rt, want, wholes(rt, all))
		require.Equal(rt, state, g.state(rt, cut))
		require.Equal(rt, http.StatusNoContent, g.do("DELETE", cut, nil).StatusCode)
	})
}

func TestWordIsScoredWhenItHasEnded(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3}`)
	r, w := io.Pipe()
	pieces := make(chan string, 1)
	go func() {
		for piece := range pieces {
			_, _ = io.WriteString(w, piece)
		}
		_ = w.Close()
	}()
	pieces <- "the"
	resp := g.do("POST", path+"/score", r,
		"Content-Type", "text/plain", "Accept", contract.MediaNDJSON)
	events := readEvents(resp)
	offset := int64(0)
	for _, step := range []struct {
		text            string
		tokens, pending int64
	}{{"the", 0, 3}, {" ca", 1, 3}, {"t\n", 2, 0}, {"  ", 0, 2}, {"\n", 1, 0}, {"the", 0, 3}} {
		if offset > 0 {
			pieces <- step.text
		}
		e, err := events.next()
		require.NoError(t, err)
		c := as[api.ChunkEvent](t, e)
		offset += int64(len(step.text))
		require.Equal(t, []int64{step.tokens, step.pending, offset},
			[]int64{c.Tokens, *c.PendingBytes, c.Totals.Bytes + *c.PendingBytes}, step.text)
	}
	close(pieces)
	rest := events.all(t)
	sum := as[api.SummaryEvent](t, rest[len(rest)-1])
	require.Equal(t, []int64{offset, 3, 4}, []int64{sum.Offset, *sum.PendingBytes, sum.Tokens})
	s := g.get(path)
	require.Equal(t, []int64{offset, 3, 4}, []int64{s.Offset, *s.PendingBytes, s.Totals.Tokens})
	require.Equal(t, 4, s.PendingTokens)
}

func TestMeasuresOfWords(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"baseline":true}}`)
	sum := decode[map[string]any](t, g.text(path+"/score", "the cat xyzzy sat\n"), http.StatusOK)
	number := func(name string) float64 { return sum[name].(float64) }
	require.Equal(t, []float64{18, 5, 1, 6, 0}, []float64{
		number("bytes"), number("tokens"), number("unknown"), number("unknown_bytes"),
		number("pending_bytes"),
	})
	require.InEpsilon(t, math.Exp2(number("bits")/5), number("perplexity"), 1e-12)
	require.InEpsilon(t, math.Exp2(number("baseline_bits")/5), number("baseline_perplexity"), 1e-12)
	require.InEpsilon(t, (number("bits")-number("unknown_bits"))/12, number("bits_per_byte"), 1e-12)
	for _, absent := range []string{"bpc", "baseline_bpc"} {
		require.NotContains(t, sum, absent)
		require.NotContains(t, sum["totals"], absent)
	}
	unknown := decode[api.SummaryEvent](t,
		g.text(path+"/score?learn=false", "xyzzy plugh "), http.StatusOK)
	require.Nil(t, unknown.BitsPerByte, "no word is known")
	require.EqualValues(t, 2, *unknown.Unknown)
	require.NotNil(t, unknown.Perplexity)
	list := decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK)
	require.Equal(t, g.get(path), list.Sessions[0])
	require.EqualValues(t, 1, *list.Sessions[0].Totals.Unknown)
}

func TestBytesHaveNothingOfWords(t *testing.T) {
	g := newRealRig(t, session.Options{Threads: 2}, Options{})
	path := g.create(`{"seed":3,"settings":{"baseline":true}}`)
	answer := g.text(path+"/score", "the cat sat\n", "Accept", contract.MediaNDJSON)
	summary, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	about, err := io.ReadAll(g.do("GET", path, nil).Body)
	require.NoError(t, err)
	for _, name := range []string{"unknown", "bits_per_byte", "pending_bytes",
		"baseline_perplexity"} {
		require.NotContains(t, string(summary), name)
		require.NotContains(t, string(about), name)
	}
}

func TestModelOfWordsSaysSo(t *testing.T) {
	m := decode[api.Model](t, newWordsRig(t).do("GET", "/v1/models/"+wordsName(t), nil),
		http.StatusOK)
	require.Equal(t, "words", m.Tokenizer)
	require.EqualValues(t, wordsVocab(t), m.VocabSize)
}

func wordsName(t *testing.T) string {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return m.Name
}

func wordsVocab(t *testing.T) int {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return m.Tokenizer.Vocab()
}

func TestLinesOfWords(t *testing.T) {
	g := newWordsRig(t)
	text := strings.Repeat("the cat sat on the mat .\nA dog barked xyzzy .\n", 30) + "the cat"
	const made = `{"seed":3,"settings":{"chunk":16}}`
	all := "/score?unit=line&tokens=true"
	whole := g.create(made)
	lines, sum := g.linesOf(whole+all, text, contract.MediaNDJSON)
	require.Len(t, lines, 61)
	require.Nil(t, lines[0].BPC)
	require.False(t, lines[60].Ended)
	bits := 0.
	for _, l := range lines {
		bits += l.Bits
	}
	require.InEpsilon(t, sum.Bits, bits, 1e-9)
	cut := g.create(made)
	var pieces []api.LineEvent
	for rest := text; rest != ""; {
		n := min(len(rest), 7)
		some, _ := g.linesOf(cut+all, rest[:n], contract.MediaEventStream)
		for _, l := range some {
			if l.Ended {
				pieces = append(pieces, l)
			}
		}
		rest = rest[n:]
	}
	require.Equal(t, lines[:60], pieces)
	require.Equal(t, g.state(t, whole), g.state(t, cut))
}

// A flagged line is not learned. The session's state depends only on its text and on which lines
// were flagged.
func TestLinesOfWordsMayBeLeftUnlearnt(t *testing.T) {
	g := newWordsRig(t)
	const usual = "the cat sat on the mat .\n"
	text := strings.Repeat(usual, 300) + "mat mat xyzzy plugh the the\n" + usual
	path := g.create(`{"seed":3,"settings":{"chunk":16}}`)
	path += "/score?unit=line&learn=unflagged&threshold=0.01"
	lines, _ := g.linesOf(path, text, contract.MediaNDJSON)
	learnt := 0
	for _, l := range lines {
		if *l.Learnt {
			learnt++
		}
	}
	require.Less(t, learnt, len(lines))
	require.False(t, *lines[300].Learnt, "the strange one")
}

func TestFeederOfWordsContinuesWhereItStopped(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"chunk":16}}`)
	at := int64(0)
	for n := 1; at < int64(len(prose)); n++ {
		piece := prose[at:min(len(prose), int(at)+5*n)]
		sum := decode[api.SummaryEvent](t,
			g.text(fmt.Sprintf("%s/score?offset=%d", path, at), piece), http.StatusOK)
		wrong := decode[api.Problem](t,
			g.text(fmt.Sprintf("%s/score?offset=%d", path, sum.Bytes+sum.Totals.Bytes+999), "x"),
			http.StatusConflict)
		require.Equal(t, sum.Offset, *wrong.Offset)
		at = sum.Offset
	}
	require.EqualValues(t, len(prose), at)
	require.WithinDuration(t, time.Now(), g.get(path).LastUsedAt, time.Minute)
}
