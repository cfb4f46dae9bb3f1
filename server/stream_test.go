package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
)

func TestEventsArriveWhileTheBodyIsStillComingIn(t *testing.T) {
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON} {
		g := newRig(t, Options{})
		path := g.create(`{"settings":{"chunk":16}}`)
		body, text := io.Pipe()
		began := make(chan error, 1)
		go func() { _, err := io.WriteString(text, strings.Repeat("a", 16)); began <- err }()
		resp := g.do("POST", path+"/score", body, "Content-Type", "text/plain", "Accept", accept)
		require.NoError(t, <-began)
		events := readEvents(resp)
		for step := range 50 {
			e, err := events.next()
			require.NoError(t, err)
			chunk := as[api.ChunkEvent](t, e)
			require.EqualValues(t, step, chunk.Step)
			require.True(t, chunk.Complete)
			_, err = io.WriteString(text, strings.Repeat("a", 16))
			require.NoError(t, err)
		}
		require.NoError(t, text.Close())
		rest := events.all(t)
		require.Len(t, rest, 2)
		require.EqualValues(t, 51*16, as[api.SummaryEvent](t, rest[1]).Bytes)
	}
}

func TestPartOfChunkIsReportedAtOnce(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create(`{"settings":{"chunk":16}}`)
	body, text := io.Pipe()
	go func() { _, _ = io.WriteString(text, "abc") }()
	events := readEvents(g.do("POST", path+"/score", body, "Content-Type", "text/plain", "Accept",
		contract.MediaNDJSON))
	e, err := events.next()
	require.NoError(t, err)
	require.EqualValues(t, 3, as[api.ChunkEvent](t, e).Bytes)
	require.False(t, as[api.ChunkEvent](t, e).Complete)
	require.NoError(t, text.Close())
	require.Len(t, events.all(t), 1)
}

func TestFailureInMidStreamIsLastEvent(t *testing.T) {
	g := newRig(t, Options{})
	g.fake.fail = errors.New("disk on fire")
	path := g.create(`{"settings":{"chunk":16}}`)
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON} {
		events := readEvents(g.text(path+"/score", strings.Repeat("x", 48), "Accept",
			accept)).all(t)
		require.Len(t, events, 2)
		failure := as[api.ErrorEvent](t, events[1])
		require.Equal(t, api.ProblemInternal, failure.Problem.Type)
		require.Equal(t, http.StatusInternalServerError, failure.Problem.Status)
		require.EqualValues(t, as[api.ChunkEvent](t, events[0]).Totals.Bytes,
			*failure.Problem.Offset)
		require.Empty(t, events[1].ID)
	}
	events := readEvents(g.json(path+"/complete", `{"stream":true}`)).all(t)
	require.Len(t, events, 2)
	require.Equal(t, api.ProblemInternal, as[api.ErrorEvent](t, events[1]).Problem.Type)
}

func TestCutOffBodyKeepsWhatWasReported(t *testing.T) {
	for _, accept := range []string{contract.MediaJSON, contract.MediaEventStream,
		contract.MediaNDJSON} {
		g := newRig(t, Options{})
		path := g.create(`{"settings":{"chunk":16}}`)
		resp := cutOff(g, path, accept)
		var p api.Problem
		if accept == contract.MediaJSON {
			p = requireProblem(t, resp, api.ProblemBodyIncomplete)
		} else {
			events := readEvents(resp).all(t)
			p = as[api.ErrorEvent](t, events[len(events)-1]).Problem
			require.Equal(t, api.ProblemBodyIncomplete, p.Type)
			require.Equal(t, *p.Offset, as[api.ChunkEvent](t, events[len(events)-2]).Totals.Bytes)
		}
		require.EqualValues(t, 40, *p.Offset)
		require.Equal(t, http.StatusOK, g.text(path+"/score?offset=40", "and so on").StatusCode)
	}
}

func TestLeavingClientCancelsItsRequest(t *testing.T) {
	for name, request := range map[string]func(g *rig, path string) *http.Request{
		"score, still sending": func(g *rig, path string) *http.Request {
			body, text := io.Pipe()
			g.t.Cleanup(func() { _ = text.Close() })
			go func() { _, _ = io.WriteString(text, "and then") }()
			r, _ := http.NewRequest("POST", g.url+path+"/score", body)
			r.Header.Set("Content-Type", "text/plain")
			return r
		},
		"score, all sent": func(g *rig, path string) *http.Request {
			g.fake.hold("s-0001")
			r, _ := http.NewRequest("POST", g.url+path+"/score",
				strings.NewReader(`{"text":"and then there was no more"}`))
			r.Header.Set("Content-Type", "application/json")
			return r
		},
		"complete": func(g *rig, path string) *http.Request {
			g.fake.hold("s-0001")
			r, _ := http.NewRequest("POST", g.url+path+"/complete",
				strings.NewReader(`{"stream":true}`))
			r.Header.Set("Content-Type", "application/json")
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{})
			path := g.create("{}")
			r := request(g, path)
			r.Header.Set("Accept", contract.MediaEventStream)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := g.client.Do(r.WithContext(ctx))
			require.NoError(t, err)
			_, err = readEvents(resp).next()
			require.NoError(t, err)
			cancel()
			_ = resp.Body.Close()
			done := make(chan struct{})
			go func() { g.fake.running.Wait(); close(done) }()
			select {
			case <-done:
			case <-time.After(5 * time.Second):
				t.Fatal("the request goes on without its client")
			}
		})
	}
}

func TestMemoryStaysFlatUnderALongBody(t *testing.T) {
	const size = 12 << 20
	g := newRig(t, Options{})
	path := g.create(`{"settings":{"chunk":1024}}`)
	r, err := http.NewRequest("POST", g.url+path+"/score", io.LimitReader(alphabet{}, size))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Accept", contract.MediaNDJSON)

	before := heap()
	resp, err := g.plain.Do(r)
	require.NoError(t, err)
	events := readEvents(resp)
	var peak uint64
	var last event
	for n := 0; ; n++ {
		e, err := events.next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		last = e
		if n%500 == 0 {
			peak = max(peak, heap())
		}
	}
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, size, as[api.SummaryEvent](t, last).Bytes)
	require.Less(t, int64(peak)-int64(before), int64(2<<20), "live memory grew by as many bytes")
}

// heap returns the size of the live heap in bytes. It takes the least of three measurements,
// because concurrent allocations enlarge single measurements.
func heap() (least uint64) {
	for range 3 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if least == 0 || m.HeapAlloc < least {
			least = m.HeapAlloc
		}
	}
	return least
}

type alphabet struct{}

func (alphabet) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a' + byte(i%26)
	}
	return len(p), nil
}

func TestStreamsDoNotMix(t *testing.T) {
	g := newRig(t, Options{})
	var all sync.WaitGroup
	for i := range 8 {
		path := g.create(fmt.Sprintf(`{"settings":{"chunk":%d}}`, 8+i))
		all.Go(func() {
			resp := g.text(path+"/score", strings.Repeat(string(rune('a'+i)), 1000+i), "Accept",
				contract.MediaNDJSON)
			events := readEvents(resp).all(t)
			sum := as[api.SummaryEvent](t, events[len(events)-1])
			if sum.Offset != int64(1000+i) {
				t.Errorf("session %d is at %d", i, sum.Offset)
			}
		})
	}
	all.Wait()
}
