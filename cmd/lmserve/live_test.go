package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/server"
	"github.com/lmserve/lmserve/weights"
)

// liveText is how much text a round has for all sessions together, a core. It is as much for one
// session as for many.
const liveText = 16 << 10

// BenchmarkLiveSessions has so many live sessions of the embedded models score text at the same time, over HTTP and with a
// data folder, while one more scores 64 bytes now and then. It scales with GOMAXPROCS. The metric
// of-limit is the bytes a second of all, in parts of what as many workers of one thread as there are
// cores would score that had nothing else to do, measured in turn with it; p50 and p99 are of the 64
// bytes, and ms-alone what these take without the others.
func BenchmarkLiveSessions(b *testing.B) {
	for _, name := range weights.EmbeddedNames() {
		m, err := model.Place{Name: name}.Load()
		require.NoError(b, err)
		for _, sessions := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprint(name, "/", sessions), func(b *testing.B) { benchmarkLive(b, m, sessions) })
		}
	}
}

func benchmarkLive(b *testing.B, m *model.Model, sessions int) {
	l := newLive(b, m)
	text := liveSource(max(liveText*runtime.GOMAXPROCS(0), sessions*m.Chunk))
	paths := make([]string, sessions)
	for i := range paths {
		paths[i] = l.create(b)
		l.score(b, paths[i], text[:m.Chunk])
	}
	short := l.create(b)
	alone := []time.Duration{}
	for range 20 {
		alone = append(alone, l.short(b, short, text))
	}
	part := len(text) / sessions
	var waits []time.Duration
	var ratios []float64
	for b.Loop() {
		began := time.Now()
		var all sync.WaitGroup
		over := make(chan struct{})
		for i, path := range paths {
			all.Go(func() { l.score(b, path, text[i*part:(i+1)*part]) })
		}
		var other sync.WaitGroup
		other.Go(func() {
			for pause := time.Tick(20 * time.Millisecond); ; {
				select {
				case <-over:
					return
				case <-pause:
					waits = append(waits, l.short(b, short, text))
				}
			}
		})
		all.Wait()
		speed := float64(part*sessions) / time.Since(began).Seconds()
		close(over)
		other.Wait()
		ratios = append(ratios, speed/l.limit(text))
	}
	slices.Sort(waits)
	slices.Sort(ratios)
	slices.Sort(alone)
	b.ReportMetric(ratios[len(ratios)/2], "of-limit")
	b.ReportMetric(alone[len(alone)/2].Seconds()*1e3, "ms-alone")
	for _, percent := range []int{50, 99} {
		b.ReportMetric(waits[(len(waits)-1)*percent/100].Seconds()*1e3, fmt.Sprintf("ms-p%d", percent))
	}
}

// live is a server with a client, and one worker for each core that has no server.
type live struct {
	url    string
	client *http.Client
	alone  []*stream.Worker
	of     []*stream.Stream
}

func newLive(b *testing.B, m *model.Model) *live {
	store, err := sessionlog.Open(b.TempDir(), sessionlog.Options{})
	require.NoError(b, err)
	mg, err := session.NewManager(m, session.Options{Store: store, MaxQueue: 1024, MaxMemoryBytes: 16 << 30})
	require.NoError(b, err)
	s, err := server.New(mg, server.Options{})
	require.NoError(b, err)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(at) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	l := &live{url: "http://" + at.Addr().String(), client: &http.Client{Transport: transport}}
	for range runtime.GOMAXPROCS(0) {
		l.alone = append(l.alone, stream.NewWorker(m, 1))
		all := stream.Defaults(m)
		all.SkipBelow = 0
		l.of = append(l.of, stream.New(m, all))
	}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(b, s.Drain(context.Background()))
		require.NoError(b, <-served)
		require.NoError(b, store.Close())
		for _, w := range l.alone {
			w.Close()
		}
	})
	return l
}

// limit is how many bytes a second workers of one thread score, one a core, that share nothing.
func (l *live) limit(text string) (sum float64) {
	var all sync.WaitGroup
	speeds := make([]float64, len(l.alone))
	for i, w := range l.alone {
		all.Go(func() {
			part := []byte(text[:liveText])
			began := time.Now()
			w.Feed(l.of[i], part, nil)
			speeds[i] = float64(len(part)) / time.Since(began).Seconds()
		})
	}
	all.Wait()
	for _, v := range speeds {
		sum += v
	}
	return sum
}

// create makes a session that learns from every chunk, as the limit's streams do: of text that comes
// again and again some would be skipped.
func (l *live) create(b *testing.B) (path string) {
	resp, err := l.client.Post(l.url+"/v1/sessions", "application/json",
		strings.NewReader(`{"settings":{"skip_below":0}}`))
	require.NoError(b, err)
	defer resp.Body.Close()
	require.Equal(b, http.StatusCreated, resp.StatusCode)
	var session struct{ ID string }
	require.NoError(b, json.NewDecoder(resp.Body).Decode(&session))
	return "/v1/sessions/" + session.ID + "/score"
}

func (l *live) score(b *testing.B, path, text string) {
	resp, err := l.client.Post(l.url+path, "text/plain", strings.NewReader(text))
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Errorf("%s: %v, %v", path, resp, err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// short scores 64 bytes and says how long that took.
func (l *live) short(b *testing.B, path, text string) time.Duration {
	began := time.Now()
	l.score(b, path, text[:64])
	return time.Since(began)
}

// liveSource is text with much to learn, so that few chunks are skipped.
func liveSource(bytes int) string {
	var t strings.Builder
	for i := uint64(1); t.Len() < bytes; i++ {
		fmt.Fprintf(&t, "%x says %d, ", i*0x9e3779b97f4a7c15>>40, i*i%977)
	}
	return t.String()[:bytes]
}
