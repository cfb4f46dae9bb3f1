package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// The tests of this file run in bubbles of testing/synctest, whose clock advances only while all
// goroutines wait. HTTP runs over in-memory pipes.

// pipeListener is a net.Listener whose connections come from its method dial and are in-memory
// pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial() (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("nobody listens")
	}
}

func newClockRig(t *testing.T, o Options) (*rig, *pipeListener) {
	l, fake := newPipeListener(), newFake()
	g := newRigOn(t, fake, o, l, &http.Transport{DialContext: func(context.Context, string,
		string) (net.Conn, error) {
		return l.dial()
	}})
	g.fake = fake
	return g, l
}

func requireSince(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	require.InDelta(t, want.Seconds(), time.Since(start).Seconds(), 0.01*want.Seconds()+0.001)
}

func TestLongBodyIsReadAtRateOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "slow", Limits: keys.Limits{BytesPerSecond: 100}},
			keys.Key{Name: "other"})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["slow"]
		first, second := g.create("{}"), g.create("{}")
		time.Sleep(time.Minute)

		start := time.Now()
		sum := decode[api.SummaryEvent](t, g.text(first+"/score", strings.Repeat("x", 60_100)),
			http.StatusOK)
		require.EqualValues(t, 60_100, sum.Bytes)
		// The first 100 bytes are free. At 100 bytes per second the other 60,000 take 10 minutes,
		// which is more than BodyIdleMax.
		requireSince(t, start, 10*time.Minute)

		time.Sleep(time.Minute)
		start = time.Now()
		var all sync.WaitGroup
		for _, path := range []string{first, second} {
			all.Go(func() { g.text(path+"/score", strings.Repeat("x", 550)) })
		}
		all.Wait()
		// The rate of the key limits the two bodies together.
		requireSince(t, start, 10*time.Second)

		time.Sleep(time.Minute)
		all.Go(func() { g.text(first+"/score", strings.Repeat("x", 6_000)) })
		time.Sleep(30 * time.Second)
		between := time.Now()
		g.json(second+"/score", `{"text":"a short one, while the long one comes in"}`)
		require.Less(t, time.Since(between), time.Second, "gets its turn")
		all.Wait()

		g.key = ring.token["other"]
		path := g.create("{}")
		start = time.Now()
		g.text(path+"/score", strings.Repeat("x", 50_000))
		require.Zero(t, time.Since(start), "another key has bytes of its own")
	})
}

func TestKeyInDebtIsRefusedWithRetryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "slow", Limits: keys.Limits{BytesPerSecond: 100}})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["slow"]
		path := g.create("{}")
		time.Sleep(time.Minute)
		// The request costs 1033 bytes: 1000 sampled bytes and a body of 33 bytes.
		readEvents(g.json(path+"/complete", `{"max_tokens":1000,"stream":true}`)).all(t)
		resp := g.text(path+"/score", "more")
		p := requireProblem(t, resp, api.ProblemKeyRateLimit)
		require.Equal(t, "The key may send 100 bytes per second. Retry after 9.3 seconds.",
			*p.Detail)
		require.Equal(t, "10", resp.Header.Get("Retry-After"))
		require.Equal(t, http.StatusOK, g.do("GET", path, nil).StatusCode,
			"without a body there is nothing to pay")
		require.Zero(t, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		require.NoError(t, err)
		time.Sleep(time.Duration(after) * time.Second)
		start := time.Now()
		require.Equal(t, http.StatusOK, g.text(path+"/score", "more").StatusCode)
		require.Zero(t, time.Since(start))
	})
}

// Each request for suggestions uses at least one byte of the key's rate, even if the request fails.
func TestSuggestionsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "slow", Limits: keys.Limits{BytesPerSecond: 10}})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["slow"]
		path := g.create("{}") + "/suggest"
		time.Sleep(time.Minute)
		start := time.Now()
		for range 100 {
			require.Equal(t, http.StatusOK, g.json(path, "{}").StatusCode)
		}
		// At 10 bytes per second, 300 bytes take 30 s. The first 10 bytes are free, and no request
		// waits for the last byte.
		requireSince(t, start, 28900*time.Millisecond)

		time.Sleep(time.Minute)
		g.fake.full = true
		typed := `{"typed":"` + strings.Repeat("x", 1000) + `"}`
		requireProblem(t, g.json(path, typed), api.ProblemOverloaded)
		p := requireProblem(t, g.json(path, "{}"), api.ProblemKeyRateLimit)
		require.Equal(t, "The key may send 10 bytes per second. Retry after 100.0 seconds.",
			*p.Detail)
	})
}

func TestNewLimitsOfAKeyAreInForceWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "k", Limits: keys.Limits{BytesPerSecond: 10,
			Sessions: 1}})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["k"]
		path := g.create("{}")
		requireProblem(t, g.json("/v1/sessions", "{}"), api.ProblemKeySessionLimit)
		ring.update(t, func(list []keys.Key) ([]keys.Key, error) {
			list[0].Limits =
				keys.Limits{}
			return list, nil
		})
		time.Sleep(time.Second)
		g.create("{}")
		start := time.Now()
		g.text(path+"/score", strings.Repeat("x", 10_000))
		require.Zero(t, time.Since(start))
	})
}

func TestInvalidatedKeyEndsItsStreams(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, ring *testKeys){
		"revoked": func(t *testing.T, ring *testKeys) { ring.revoke(t, "k") },
		"expired": func(*testing.T, *testKeys) {},
		"gone": func(t *testing.T, ring *testKeys) {
			ring.update(t, func(list []keys.Key) ([]keys.Key, error) { return list[1:], nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ring := newTestKeys(t,
					keys.Key{Name: "k", Expires: time.Now().Add(6 * time.Second)},
					keys.Key{Name: "admin", Admin: true})
				g, _ := newClockRig(t, Options{Keys: ring.Ring})
				g.key = ring.token["k"]
				path := g.create(`{"settings":{"chunk":16}}`)
				body, text := io.Pipe()
				var writer sync.WaitGroup
				defer writer.Wait()
				writer.Go(func() {
					for i := range 10_000 {
						if _, err := io.WriteString(text, strings.Repeat("x", 16)); err != nil {
							return
						}
						if i == 3 {
							spoil(t, ring)
						}
						time.Sleep(time.Second)
					}
				})
				events := readEvents(g.do("POST", path+"/score", body, "Content-Type", "text/plain",
					"Accept", contract.MediaNDJSON)).all(t)
				_ = body.Close()
				p := as[api.ErrorEvent](t, events[len(events)-1]).Problem
				require.Equal(t, api.ProblemUnauthorized, p.Type)
				require.Less(t, *p.Offset, int64(16*8))
				g.key = ring.token["admin"]
				require.Equal(t, *p.Offset, decode[api.Session](t, g.do("GET", path, nil),
					http.StatusOK).Offset)
			})
		})
	}
}

// A drain ends a request whose body waits for the rate limit of its key.
func TestDrainEndsHeldBackBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "slow", Limits: keys.Limits{BytesPerSecond: 10}})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["slow"]
		path, other := g.create("{}"), g.create("{}")
		body, text := io.Pipe()
		go func() { _, _ = io.WriteString(text, "x") }()
		events := readEvents(g.do("POST", path+"/score", body, "Content-Type", "text/plain",
			"Accept", contract.MediaNDJSON))
		_, err := events.next()
		require.NoError(t, err)
		// 10,000 bytes take 1000 s at the rate of the key.
		g.json(other+"/complete", `{"max_tokens":10000}`)
		_, err = io.WriteString(text, "y")
		require.NoError(t, err)
		synctest.Wait()

		start := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- g.server.Drain(t.Context()) }()
		p := as[api.ErrorEvent](t, events.all(t)[0]).Problem
		require.Equal(t, api.ProblemDraining, p.Type)
		require.EqualValues(t, 1, *p.Offset)
		require.NoError(t, <-drained)
		require.Less(t, time.Since(start), 2*time.Second)
		_ = body.Close()
	})
}

func TestStalledClientsAndHugeBodiesHarmOnlyTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "bad", Limits: keys.Limits{Requests: 10,
			BytesPerSecond: 10_000}}, keys.Key{Name: "good"})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		g.key = ring.token["bad"]
		var paths []string
		for range 10 {
			paths = append(paths, g.create(`{"settings":{"chunk":1024}}`))
		}
		var all sync.WaitGroup
		statuses := make(chan int, 10)
		for i, path := range paths {
			all.Go(func() {
				// 20 s at the rate of the key
				body := io.Reader(io.LimitReader(alphabet{}, 200_000))
				if i%2 == 0 {
					stalled, text := io.Pipe()
					defer text.Close()
					go func() { _, _ = io.WriteString(text, "begun, and then nothing") }()
					body = stalled
				}
				statuses <- g.do("POST", path+"/score", body, "Content-Type",
					"text/plain").StatusCode
			})
		}
		time.Sleep(10 * time.Second)
		requireProblem(t, g.do("GET", paths[0], nil), api.ProblemKeyRequestLimit)

		g.key = ring.token["good"]
		path := g.create("{}")
		for range 20 {
			start := time.Now()
			require.Equal(t, http.StatusOK,
				g.text(path+"/score", strings.Repeat("y", 10_000)).StatusCode)
			require.Zero(t, time.Since(start), "nothing to wait for")
			time.Sleep(time.Second)
		}
		all.Wait()
		close(statuses)
		count := map[int]int{}
		for status := range statuses {
			count[status]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 5, http.StatusRequestTimeout: 5}, count)
		g.key = ring.token["bad"]
		require.Equal(t, http.StatusOK, g.do("GET", paths[0], nil).StatusCode,
			"its requests have ended")
	})
}

func TestEveryWaitForAClientEnds(t *testing.T) {
	const request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		send string
		most time.Duration
		want string
	}{
		"nothing sent":      {"", limits.HeaderTimeMax, ""},
		"half a header":     {request[:30], limits.HeaderTimeMax, ""},
		"no second request": {request, limits.ConnIdleMax, "HTTP/1.1 200 OK"},
		"half a body": {"POST /v1/sessions HTTP/1.1\r\nHost: " +
			"localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
			limits.BodyIdleMax, "body-timeout"},
		"no body at all": {"POST /v1/sessions HTTP/1.1\r\nHost: " +
			"localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
			limits.BodyIdleMax, "body-timeout"},
		"a body nobody expects": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
			"9\r\n\r\n", limits.LingerMax, "HTTP/1.1 200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := newClockRig(t, Options{})
				conn, err := l.dial()
				require.NoError(t, err)
				defer conn.Close()
				start := time.Now()
				go func() { _, _ = io.WriteString(conn, c.send) }()
				answer, _ := io.ReadAll(conn)
				require.Contains(t, string(answer), c.want)
				require.GreaterOrEqual(t, time.Since(start), c.most)
				require.LessOrEqual(t, time.Since(start), c.most+2*limits.LingerMax)
			})
		})
	}
	t.Run("an answer not taken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, l := newClockRig(t, Options{})
			path := g.create("{}")
			conn, err := l.dial()
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprintf(conn, "POST %s/score HTTP/1.1\r\nHost: localhost\r\nAccept: "+
				"text/event-stream\r\nContent-Length: 40\r\n\r\n%s", path, strings.Repeat("x", 40))
			start := time.Now()
			synctest.Wait()
			require.True(t, g.fake.sessions["s-0001"].busy.Load())
			g.fake.running.Wait()
			requireSince(t, start, limits.AnswerIdleMax)
		})
	})
}

func TestReadinessSaysThatTheDiskIsFull(t *testing.T) {
	g := newRig(t, Options{})
	ready := func() *api.ServiceStatusDisk {
		return decode[api.ServiceStatus](t, g.do("GET", "/readyz", nil), http.StatusOK).Disk
	}
	require.Nil(t, ready())
	full := api.DiskFull
	g.fake.tight = &session.DiskAlarmError{}
	require.Equal(t, &full, ready())
	g.fake.tight = nil
	require.Nil(t, ready())
}

func TestReadinessSaysThatTheKeysAreStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newTestKeys(t, keys.Key{Name: "alice"})
		g, _ := newClockRig(t, Options{Keys: ring.Ring})
		requireReady := func(want *api.ServiceStatusKeys) {
			time.Sleep(time.Second)
			require.Equal(t, want, decode[api.ServiceStatus](t, g.do("GET", "/readyz", nil),
				http.StatusOK).Keys)
		}
		requireReady(nil)
		good, err := os.ReadFile(ring.path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(ring.path, good[:20], 0o600))
		stale := api.KeysStale
		requireReady(&stale)
		require.Equal(t, http.StatusOK, g.do("GET", "/v1/sessions", nil, "Authorization", "Bearer "+
			ring.token["alice"]).StatusCode, "the keys before stay")
		require.NoError(t, os.WriteFile(ring.path, good, 0o600))
		requireReady(nil)
	})
}
