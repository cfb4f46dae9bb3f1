package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// The tests of this file use a real session manager with a small random model and a data folder.

// realRig is a test server with a data folder. A test may call the method close to stop the server
// early.
type realRig struct {
	*rig
	mg    *session.Manager
	close func()
}

func newRealRig(t *testing.T, sessions session.Options, o Options) *realRig {
	t.Helper()
	m, err := modeltest.Small()
	require.NoError(t, err)
	return newRealRigOf(t, m, sessions, o)
}

func newRealRigOf(t *testing.T, m *model.Model, sessions session.Options, o Options) *realRig {
	t.Helper()
	store, err := folder.Open(t.TempDir(), folder.Options{})
	require.NoError(t, err)
	sessions.Store = store
	sessions.Report = func(err error) { t.Error(err) }
	mg, err := session.NewManager(m, sessions)
	require.NoError(t, err)
	s, err := New(mg, o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	client := &http.Client{Transport: transport}
	g := &rig{t: t, server: s, addr: l.Addr().String(), url: "http://" + l.Addr().String(),
		client: client, plain: client}
	r := &realRig{rig: g, mg: mg}
	r.close = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-served)
		require.NoError(t, store.Close())
	})
	t.Cleanup(r.close)
	return r
}

func stateBytes(t *testing.T, settings session.Settings) int64 {
	m, err := modeltest.Small()
	require.NoError(t, err)
	mg, err := session.NewManager(m, session.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, mg.Drain(context.Background())) }()
	info, err := mg.Create(context.Background(), session.Caller{},
		session.CreateRequest{Settings: settings})
	require.NoError(t, err)
	return info.MemoryBytes
}

// state returns the contents of a session's export: metadata, tensors and text.
func (r *realRig) state(t require.TestingT, path string) []any {
	var b bytes.Buffer
	require.NoError(t, r.mg.Export(context.Background(), session.Caller{}, strings.TrimPrefix(path,
		"/v1/sessions/"), 0, &b, nil))
	x, err := program.ReadExport(b.Bytes())
	require.NoError(t, err)
	return []any{x.State.Metadata, x.State.Tensors, string(x.Text)}
}

// numbered returns size bytes of text with unique lines. Texts for different n have no line in
// common.
func numbered(n, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d: GET /item/%d -> 200\n", n, i*7%10)
	}
	return b.String()[:size]
}

func (r *realRig) post(path, text string) (status int, answer string, err error) {
	resp, err := r.client.Post(r.url+path, "text/plain", strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// descriptors counts this process's open files; -1 if unknown.
func descriptors() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(names)
}

func TestManySessionsAndTwoHundredClients(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	// The Go runtime opens some files only once. This first server makes the runtime open them
	// before the count.
	newRealRig(t, session.Options{}, Options{}).close()
	before := descriptors()
	func() {
		sessions := 300 // almost five times the number of states that fit in memory
		if os.Getenv("LMSERVE_TEST_LONG") != "" {
			sessions = 1000
		}
		const clients, kinds, size = 200, 10, 24
		budget := 64 * stateBytes(t, session.Settings{})
		// with 8 threads, one commit stores up to 8 chunks
		r := newRealRig(t, session.Options{MaxMemoryBytes: budget, Threads: 8}, Options{})
		defer r.close()
		paths := make([]string, sessions)
		each := func(do func(i int) error) {
			var wait sync.WaitGroup
			for c := range clients {
				wait.Go(func() {
					for i := c; i < sessions; i += clients {
						if err := do(i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			require.False(t, t.Failed())
		}
		done := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() { r.staysWithin(budget, done) })
		each(func(i int) error {
			resp, err := r.client.Post(r.url+"/v1/sessions", contract.MediaJSON,
				strings.NewReader(`{"seed":3}`))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			paths[i] = resp.Header.Get("Location")
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
		// Each piece ends in the middle of a chunk. Every session gets a piece before any session
		// gets its next piece.
		const piece = size / 2
		for at := 0; at < size; at += piece {
			each(func(i int) error {
				status, answer, err := r.post(fmt.Sprintf("%s/score?offset=%d", paths[i], at),
					numbered(i%kinds, size)[at:at+piece])
				if err == nil && status != http.StatusOK {
					err = errors.New(answer)
				}
				return err
			})
		}
		close(done)
		watch.Wait()
		want := map[int][]any{}
		for i, path := range paths[:5*kinds] {
			state := r.state(t, path)
			if i < kinds {
				want[i] = state
			}
			require.Equal(t, want[i%kinds], state)
		}
		require.NotEqual(t, want[0], want[1])
		for i, path := range paths {
			info, err := r.mg.Get(session.Caller{}, strings.TrimPrefix(path, "/v1/sessions/"))
			require.NoError(t, err)
			twin, err := r.mg.Get(session.Caller{}, strings.TrimPrefix(paths[i%kinds],
				"/v1/sessions/"))
			require.NoError(t, err)
			require.Equal(t, []any{int64(size), twin.Bits}, []any{info.Offset, info.Bits})
		}
	}()
	require.Eventually(t, func() bool { return descriptors() <= before }, 10*time.Second,
		10*time.Millisecond,
		"%d files were open, now it is %d", before, descriptors())
}

// staysWithin checks, until done is closed, that the states of all sessions use at most budget
// bytes of memory.
func (r *realRig) staysWithin(budget int64, done <-chan struct{}) {
	for {
		var list api.SessionList
		resp, err := r.client.Get(r.url + "/v1/sessions?limit=1000")
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&list)
			_ = resp.Body.Close()
		}
		sum := int64(0)
		for _, info := range list.Sessions {
			sum += info.MemoryBytes
		}
		if err != nil || sum > budget {
			r.t.Errorf("%d bytes of memory for states, expected at most %d; %v", sum, budget, err)
		}
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestClientsThatMisbehaveHarmOnlyThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const size = 20 * modeltest.Chunk
	long := session.Settings{"chunk": stream.MaxChunk} // Long chunks have large events.
	r := newRealRig(t, session.Options{MaxMemoryBytes: stateBytes(t, long) + 2*stateBytes(t,
		session.Settings{})}, Options{ScoreBodyBytesMax: 8 << 20})
	twin := r.create(`{"seed":3}`)
	status, answer, err := r.post(twin+"/score", numbered(1, size))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)

	silent, deaf, flooding := r.create("{}"), r.create(fmt.Sprintf(`{"settings":{"chunk":%d}}`,
		stream.MaxChunk)), r.create("{}")
	say := func(path, headers string, length int, body io.Reader) net.Conn {
		conn, err := net.Dial("tcp", r.addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
			"text/plain\r\n%sContent-Length: %d\r\n\r\n", path, headers, length)
		go func() { _, _ = io.Copy(conn, body) }()
		return conn
	}
	const huge = 1 << 40
	conns := []net.Conn{
		say(silent+"/score", "", 1000, strings.NewReader("all that ever comes")),
		say(deaf+"/score?logprobs=true", "Accept: text/event-stream\r\n", 8<<20, alphabet{}),
	}
	refused := say(flooding+"/score", "", huge, alphabet{})
	line, err := io.ReadAll(io.LimitReader(refused, 12))
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 413", string(line))
	busy := func(path string) bool {
		status, answer, err := r.post(path+"/score?wait=0s", "")
		require.NoError(t, err)
		require.True(t, status == http.StatusOK ||
			strings.Contains(answer, string(api.ProblemSessionBusy)), answer)
		return status != http.StatusOK
	}
	offset := func(path string) int64 {
		return decode[api.Session](t, r.do("GET", path, nil),
			http.StatusOK).Offset
	}
	require.Eventually(t, func() bool { return offset(silent) > 0 }, 10*time.Second,
		time.Millisecond)
	last := int64(-1)
	require.Eventually(t, func() bool { // The offset stops growing when all buffers are full.
		was := last
		last = offset(deaf)
		return was > 0 && last == was
	}, 2*time.Minute, 200*time.Millisecond)

	var wait sync.WaitGroup
	good := make([]string, 6)
	for n := range good {
		good[n] = r.create(`{"seed":3}`)
		wait.Go(func() {
			for at := 0; at < size; at += 40 {
				status, answer, err := r.post(fmt.Sprintf("%s/score?offset=%d", good[n], at),
					numbered(1, size)[at:at+40])
				if err != nil || status != http.StatusOK {
					t.Error(n, status, answer, err)
					return
				}
			}
		})
	}
	wait.Go(func() {
		for _, body := range []io.Reader{bytes.NewReader(make([]byte, limits.JSONBodyBytesMax+1)),
			io.LimitReader(alphabet{}, 2*limits.JSONBodyBytesMax)} {
			resp, err := r.client.Post(r.url+flooding+"/score", contract.MediaJSON, body)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusRequestEntityTooLarge {
					t.Error(resp.Status)
				}
			}
		}
	})
	wait.Wait()
	want := scores(t, r, twin, size, numbered(2, 50))
	for _, path := range good {
		require.Equal(t, want, scores(t, r, path, size, numbered(2, 50)))
	}
	require.True(t, busy(silent) && busy(deaf), "they still are at it")
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	for _, path := range []string{silent, deaf} {
		require.Eventually(t, func() bool { return !busy(path) }, 20*time.Second,
			10*time.Millisecond, "a session is free when its client has gone")
	}
}
