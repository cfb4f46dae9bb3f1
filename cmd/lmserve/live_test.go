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

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/server"
	"github.com/lmserve/lmserve/weights"
)

// liveRound is the approximate length of a benchmark round. In a round, every session scores at
// least liveChunks chunks. With fewer chunks, the first chunks of requests would distort the
// result, because the scheduler prefers first chunks.
const (
	liveRound  = 3 * time.Second
	liveChunks = 16
)

// BenchmarkLiveSessions measures sessions of the embedded models that score text concurrently over
// HTTP, with a data folder. It uses GOMAXPROCS cores.
//
// The metric of-cores divides the speed of all sessions by a reference: the number of cores times
// the speed of a single session, which shares one core with its client and server. The reference of
// the metric of-engine is the speed of one single-threaded worker per core, without a server.
//
// Then the sessions score the text again, while an additional session scores 64 bytes ten times per
// second. ms-p50 and ms-p99 are the latencies of the additional session. ms-alone is the latency of
// this session without load.
func BenchmarkLiveSessions(b *testing.B) {
	for _, name := range weights.EmbeddedNames() {
		m, err := model.Place{Name: name}.Load()
		require.NoError(b, err)
		for _, sessions := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprint(name, "/", sessions),
				func(b *testing.B) { benchmarkLive(b, m, sessions) })
		}
	}
}

func benchmarkLive(b *testing.B, m *model.Model, sessions int) {
	threads := runtime.GOMAXPROCS(0)
	l, engine := newLive(b, m, threads), newEngine(b, m)
	speed := engine.speed(liveSource(64 * m.Chunk))
	bytes := int(speed * liveRound.Seconds())
	text := liveSource(max(bytes, sessions*liveChunks*m.Chunk))
	each := text[:bytes/threads]
	paths := make([]string, sessions)
	for i := range paths {
		paths[i] = l.create(b)
		l.score(b, paths[i], text[:m.Chunk])
	}
	one := newLive(b, m, 1)
	ones := one.create(b)
	short := l.create(b)
	var alone, waits []time.Duration
	for range 20 {
		alone = append(alone, l.short(b, short, text))
	}
	part := len(text) / sessions / m.Chunk * m.Chunk
	round := func() (speed float64) {
		besideComputing(threads)
		defer runtime.GOMAXPROCS(threads)
		began := time.Now()
		var all sync.WaitGroup
		for i, path := range paths {
			all.Go(func() { l.score(b, path, text[i*part:(i+1)*part]) })
		}
		all.Wait()
		return float64(part*sessions) / time.Since(began).Seconds()
	}
	var ofCores, ofEngine []float64
	for b.Loop() {
		runtime.GOMAXPROCS(1)
		began := time.Now()
		one.score(b, ones, each)
		cores := float64(len(each)*threads) / time.Since(began).Seconds()
		runtime.GOMAXPROCS(threads)
		speed := round()
		ofCores = append(ofCores, speed/cores)
		ofEngine = append(ofEngine, speed/engine.speed(each))

		over, told := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(told)
			for pause := time.Tick(100 * time.Millisecond); ; {
				select {
				case <-over:
					return
				case <-pause:
					waits = append(waits, l.short(b, short, text))
				}
			}
		}()
		round()
		close(over)
		<-told
	}
	slices.Sort(ofCores)
	slices.Sort(ofEngine)
	slices.Sort(alone)
	b.ReportMetric(ofCores[len(ofCores)/2], "of-cores")
	b.ReportMetric(ofEngine[len(ofEngine)/2], "of-engine")
	b.ReportMetric(alone[len(alone)/2].Seconds()*1e3, "ms-alone")
	slices.Sort(waits)
	for _, percent := range []int{50, 99} {
		if len(waits) > 0 {
			b.ReportMetric(waits[(len(waits)-1)*percent/100].Seconds()*1e3,
				fmt.Sprintf("ms-p%d", percent))
		}
	}
}

type live struct {
	url    string
	client *http.Client
}

func newLive(b *testing.B, m *model.Model, threads int) *live {
	store, err := folder.Open(b.TempDir(), folder.Options{})
	require.NoError(b, err)
	mg, err := session.NewManager(m, session.Options{
		Store: store, MaxQueue: 1024, MaxMemoryBytes: 16 << 30, Threads: threads,
	})
	require.NoError(b, err)
	s, err := server.New(mg, server.Options{})
	require.NoError(b, err)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(at) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(b, s.Drain(context.Background()))
		require.NoError(b, <-served)
		require.NoError(b, store.Close())
	})
	return &live{url: "http://" + at.Addr().String(), client: &http.Client{Transport: transport}}
}

// engine has one single-threaded worker and one stream for each core.
type engine struct {
	workers []*stream.Worker
	of      []*stream.Stream
}

func newEngine(b *testing.B, m *model.Model) *engine {
	e := &engine{}
	for range runtime.GOMAXPROCS(0) {
		e.workers = append(e.workers, stream.NewWorker(m, 1))
		all := stream.Defaults(m)
		all.SkipBelow = 0
		e.of = append(e.of, stream.New(m, all))
	}
	b.Cleanup(func() {
		for _, w := range e.workers {
			w.Close()
		}
	})
	return e
}

// speed returns the total bytes per second of all workers.
func (e *engine) speed(text string) (sum float64) {
	var all sync.WaitGroup
	speeds := make([]float64, len(e.workers))
	for i, w := range e.workers {
		all.Go(func() {
			part := []byte(text)
			began := time.Now()
			w.Feed(e.of[i], part, nil)
			speeds[i] = float64(len(part)) / time.Since(began).Seconds()
		})
	}
	all.Wait()
	for _, v := range speeds {
		sum += v
	}
	return sum
}

// create makes a session that learns from every chunk. With the default settings, the session would
// skip chunks of repeated text.
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

func (l *live) short(b *testing.B, path, text string) time.Duration {
	began := time.Now()
	l.score(b, path, text[:64])
	return time.Since(began)
}

// liveSource returns text with much to learn, so that few chunks are skipped.
func liveSource(bytes int) string {
	var t strings.Builder
	for i := uint64(1); t.Len() < bytes; i++ {
		fmt.Fprintf(&t, "%x says %d, ", i*0x9e3779b97f4a7c15>>40, i*i%977)
	}
	return t.String()[:bytes]
}
