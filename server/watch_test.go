package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func (g *rig) watchEvents(query string, headers ...string) *eventReader {
	g.t.Helper()
	resp := g.do("GET", query, nil, headers...)
	require.Equal(g.t, http.StatusOK, resp.StatusCode)
	return readEvents(resp)
}

// upTo returns the next events of a watched session, up to the first event that reaches an offset.
func (r *eventReader) upTo(t *testing.T, offset int64) (all []event) {
	t.Helper()
	for {
		e, err := r.next()
		require.NoError(t, err)
		all = append(all, e)
		told := as[struct{ Offset, Bytes, To int64 }](t, e)
		if max(told.Offset+told.Bytes, told.To) >= offset {
			return all
		}
	}
}

func TestSessionIsWatched(t *testing.T) {
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON} {
		g := newRealRig(t, session.Options{Threads: 2}, Options{})
		path := g.create(`{"settings":{"chunk":16,"baseline":true}}`)
		require.Equal(t, http.StatusOK, g.text(path+"/score", "the past").StatusCode)
		events := g.watchEvents(path+"/events?logprobs=true&top_logprobs=2&updates=true", "Accept",
			accept)
		first, err := events.next()
		require.NoError(t, err)
		start := as[api.StartEvent](t, first)
		require.EqualValues(t, 8, start.Offset)
		require.EqualValues(t, 8, start.Totals.Bytes)
		for _, text := range []string{"and the present", "", "and more, \xff as it comes"} {
			from := start.Offset
			sum := decode[api.SummaryEvent](t, g.text(path+"/score", text), http.StatusOK)
			fed := ""
			if text == "" {
				continue
			}
			for _, e := range events.upTo(t, sum.Offset) {
				if e.Type == string(api.EventUpdate) {
					u := as[api.UpdateEvent](t, e)
					require.Zero(t, u.Offset%16)
					require.Len(t, u.Branches[0].Banks, 2)
					require.Positive(t, u.Branches[0].Norm)
					continue
				}
				c := as[api.ChunkEvent](t, e)
				require.EqualValues(t, *c.TextOffset, c.Offset)
				require.Equal(t, from+int64(len(fed)), c.Offset)
				require.Len(t, c.BaselineLogprobs, int(c.Tokens))
				require.Len(t, c.TopLogprobs, int(c.Tokens))
				require.Len(t, c.BaselineTopLogprobs[0], 2)
				if c.TextBase64 != nil {
					fed += string(c.TextBase64)
				} else {
					fed += *c.Text
				}
				if accept == contract.MediaEventStream {
					require.Equal(t, strconv.FormatInt(c.Totals.Bytes, 10), e.ID)
				}
			}
			require.Equal(t, text, fed)
			start.Offset = sum.Offset
		}
		require.Equal(t, http.StatusNoContent, g.do("DELETE", path, nil).StatusCode)
		rest := events.all(t)
		require.Equal(t, api.ProblemSessionNotFound,
			as[api.ErrorEvent](t, rest[len(rest)-1]).Problem.Type)
	}
}

func TestWatcherReconnects(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	path := g.create("{}")
	text := "one\ntwo\nthree\n"
	require.Equal(t, http.StatusOK, g.text(path+"/score?unit=line", text).StatusCode)
	for _, again := range [][]string{{"?unit=line&offset=4"}, {"?unit=line", "Last-Event-ID",
		"4"}} {
		events := g.watchEvents(path+"/events"+again[0], again[1:]...)
		told := events.upTo(t, int64(len(text)))
		if len(told) == 1 { // The start event alone may reach the offset.
			told = append(told, events.upTo(t, int64(len(text)))...)
		}
		require.EqualValues(t, 0, *as[api.StartEvent](t, told[0]).LinesFrom)
		gap := as[api.GapEvent](t, told[1])
		require.Equal(t, []int64{4, int64(len(text))}, []int64{gap.From, gap.To})
		require.Nil(t, gap.Events)
	}
	resp := g.do("GET", path+"/text?offset=4", nil)
	missed, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, text[4:], string(missed))
	p := requireProblem(t, g.do("GET", path+"/events?offset=15", nil), api.ProblemOffsetConflict)
	require.EqualValues(t, len(text), *p.Offset)
	events := g.watchEvents(path+"/events?unit=line&tokens=true", "Accept", contract.MediaNDJSON)
	require.Equal(t, http.StatusOK, g.text(path+"/score", "four\nfi").StatusCode)
	_, err = events.next()
	require.NoError(t, err)
	e, err := events.next()
	require.NoError(t, err)
	line := as[api.LineEvent](t, e)
	require.Equal(t, "four", *line.Text)
	require.Len(t, line.TokenBits, 4)
	require.Nil(t, line.Learnt)
}

// A connection may break between the lines of one chunk. The id of the last line that arrived then
// leads to a gap.
func TestWatcherLosesNoLineOfChunk(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	path := g.create("{}")
	events := g.watchEvents(path+"/events?unit=line", "Accept", contract.MediaEventStream)
	text := "a\nb\nc\nd"
	require.Equal(t, http.StatusOK, g.text(path+"/score?unit=line", text).StatusCode)
	var ids []string
	for _, e := range events.upTo(t, 6)[1:] {
		ids = append(ids, e.ID)
	}
	require.Equal(t, []string{"2", "4", "7"}, ids)
	for i, id := range ids {
		again := g.watchEvents(path+"/events?unit=line", "Accept", contract.MediaEventStream,
			"Last-Event-ID", id)
		_, err := again.next()
		require.NoError(t, err)
		if i == len(ids)-1 { // the client misses no line, so the next event is a new line
			require.Equal(t, http.StatusOK, g.text(path+"/score?unit=line", "\n").StatusCode)
			e, err := again.next()
			require.NoError(t, err)
			require.Equal(t, "d", *as[api.LineEvent](t, e).Text)
			continue
		}
		e, err := again.next()
		require.NoError(t, err)
		gap := as[api.GapEvent](t, e)
		require.Equal(t, []string{id, "7"}, []string{fmt.Sprint(gap.From), fmt.Sprint(gap.To)})
	}
}

func TestHeadOfEvents(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	path := g.create("{}")
	resp := g.do("HEAD", path+"/events", nil, "Accept", contract.MediaEventStream)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, contract.MediaEventStream, resp.Header.Get("Content-Type"))
	require.Equal(t, http.StatusOK, g.do("HEAD", path+"/text", nil).StatusCode)
}

func TestDrainEndsWatches(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	path := g.create("{}")
	events := g.watchEvents(path + "/events")
	_, err := events.next()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, g.text(path+"/score", "the last text").StatusCode)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, g.server.Drain(ctx))
	rest := events.all(t)
	require.Equal(t, "the last text", *as[api.ChunkEvent](t, rest[0]).Text)
	require.Equal(t, api.ProblemDraining, as[api.ErrorEvent](t, rest[1]).Problem.Type)
}

func TestOnlyTheOwnerAndAdminsReadASession(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "a"}, keys.Key{Name: "b"}, keys.Key{Name: "admin",
		Admin: true})
	g := newRealRig(t, session.Options{}, Options{Keys: ring.Ring})
	g.key = ring.token["a"]
	path := g.create("{}")
	require.Equal(t, http.StatusOK, g.text(path+"/score", "mine").StatusCode)
	for _, of := range []string{"/events", "/text", "/scores"} {
		g.key = ring.token["b"]
		requireProblem(t, g.do("GET", path+of, nil), api.ProblemSessionNotFound)
		for _, name := range []string{"a", "admin"} {
			g.key = ring.token[name]
			resp := g.do("HEAD", path+of, nil)
			require.Equal(t, http.StatusOK, resp.StatusCode, of)
		}
	}
}

// A watcher that reads nothing does not delay the client that feeds the session. Later a gap event
// tells the watcher which text it missed.
func TestSlowWatcherHoldsUpNobody(t *testing.T) {
	g := newRealRig(t, session.Options{Threads: 2}, Options{})
	path := g.create(`{"settings":{"method":"static","companion":false}}`)
	resp := g.do("GET", path+"/events?logprobs=true&top_logprobs=20", nil, "Accept",
		contract.MediaNDJSON)
	// The events of this text fill the watcher's queue and the connection's buffers.
	text := numbered(1, 32<<10)
	sum := decode[api.SummaryEvent](t, g.text(path+"/score", text), http.StatusOK)
	at, gaps := int64(0), 0
	for events := readEvents(resp); at < sum.Offset; {
		e, err := events.next()
		require.NoError(t, err)
		switch e.Type {
		case string(api.EventGap):
			gap := as[api.GapEvent](t, e)
			require.Equal(t, at, gap.From)
			at, gaps = gap.To, gaps+1
		case string(api.EventChunk):
			c := as[api.ChunkEvent](t, e)
			require.Equal(t, at, c.Offset)
			require.Equal(t, text[at:at+c.Bytes], *c.Text)
			at += c.Bytes
		}
	}
	require.Positive(t, gaps)
}

func TestPastOfSession(t *testing.T) {
	g := newRealRig(t, session.Options{ReplayMax: 1}, Options{})
	// 45 chunks, with a snapshot after each chunk
	text := strings.Repeat("some \xfe text\n", 60)
	path := g.create(`{"settings":{"baseline":true}}`)
	sum := decode[api.SummaryEvent](t, g.text(path+"/score", text), http.StatusOK)
	resp := g.do("GET", path+"/text?offset=7&length=1048576", nil)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, text[7:], string(got))
	require.Equal(t, strconv.Itoa(len(text)), resp.Header.Get("Lmserve-Session-Offset"))
	require.Equal(t, "0", resp.Header.Get("Lmserve-Text-From"))
	require.EqualValues(t, 0, g.do("GET", path+"/text?offset="+strconv.Itoa(len(text)),
		nil).ContentLength)
	for _, of := range []string{"/text", "/scores"} {
		p := requireProblem(t, g.do("GET", path+of+"?offset=99999", nil), api.ProblemOffsetConflict)
		require.EqualValues(t, len(text), *p.Offset)
		requireProblem(t, g.do("GET", "/v1/sessions/none"+of, nil), api.ProblemSessionNotFound)
		requireProblem(t, g.do("GET", path+of, nil, "Accept", "image/png"),
			api.ProblemNotAcceptable)
	}
	past := decode[api.PastScores](t, g.do("GET", path+"/scores?points=5", nil), http.StatusOK)
	require.LessOrEqual(t, len(past.Scores), 5)
	bits, baseline := 0., 0.
	for _, p := range past.Scores {
		bits, baseline = bits+p.Bits, baseline+*p.BaselineBits
		require.WithinDuration(t, time.Now(), p.Time, time.Hour)
	}
	require.InDelta(t, sum.Bits, bits, 1e-6)
	require.InDelta(t, *sum.BaselineBits, baseline, 1e-6)

	tail := g.create(`{"history":"tail"}`)
	require.Equal(t, http.StatusOK, g.text(tail+"/score", text).StatusCode)
	p := requireProblem(t, g.do("GET", tail+"/text", nil), api.ProblemHistoryTrimmed)
	require.Equal(t, "offset", *p.Field)
	require.Contains(t, *p.Expected, " to "+strconv.Itoa(len(text)))
	requireProblem(t, g.do("GET", tail+"/scores?offset=1", nil), api.ProblemHistoryTrimmed)
}

// A completion from the static model needs a session with a baseline: only such a session keeps the
// static model's memory.
func TestCompletionFromStaticModelOverHTTP(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	path := g.create(`{"settings":{"baseline":true}}`)
	require.Equal(t, http.StatusOK, g.text(path+"/score", numbered(1, 500)).StatusCode)
	const greedy = `{"max_tokens":8,"temperature":0,"logprobs":true,"from":"`
	static := decode[api.Completion](t, g.json(path+"/complete", greedy+`static"}`), http.StatusOK)
	adapted := decode[api.Completion](t, g.json(path+"/complete", greedy+`adapted"}`),
		http.StatusOK)
	require.NotEqual(t, adapted.Logprobs, static.Logprobs)
	plain := g.create("{}")
	p := requireProblem(t, g.json(plain+"/complete", greedy+`static"}`), api.ProblemInvalidField)
	require.Equal(t, "from", *p.Field)
	requireProblem(t, g.json(plain+"/complete", greedy+`else"}`), api.ProblemInvalidField)
}

func TestWordsAreWatched(t *testing.T) {
	g := newWordsRig(t)
	path := g.create(`{"seed":3,"settings":{"chunk":16,"baseline":true}}`)
	require.Equal(t, http.StatusOK, g.text(path+"/score", "the ca").StatusCode)
	events := g.watchEvents(path + "/events?logprobs=true&top_logprobs=3")
	rest := "t sat on the mat .\n" + prose
	require.Equal(t, http.StatusOK, g.text(path+"/score", rest).StatusCode)
	whole, at := "the ca"+rest, int64(6)
	first, err := events.next()
	require.NoError(t, err)
	start := as[api.StartEvent](t, first)
	require.EqualValues(t, 6, start.Offset)
	require.EqualValues(t, 3, *start.PendingBytes)
	for at < int64(len(whole)) {
		e, err := events.next()
		require.NoError(t, err)
		c := as[api.ChunkEvent](t, e)
		require.Equal(t, at, *c.TextOffset)
		require.Equal(t, whole[at:at+int64(len(*c.Text))], *c.Text)
		at += int64(len(*c.Text))
		var size int64
		for i, n := range c.TokenBytes {
			size += n
			require.NotNil(t, c.TopLogprobs[i][0].Text)
			require.Len(t, c.BaselineTopLogprobs[i], 3)
		}
		require.Equal(t, c.Bytes, size)
		require.Len(t, c.TokenBytes, len(c.Logprobs))
	}
}
