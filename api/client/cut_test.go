package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// If connections break at any point, the session is bit-identical to a session that was fed in one
// piece, and each event arrives once.
func TestConnectionsThatAreCutChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, session.Options{})
	var cuts, forks int64
	streams := uint64(60)
	if os.Getenv("LMSERVE_TEST_LONG") != "" {
		streams = 2000
	}
	for seed := range streams {
		run := rand.New(rand.NewPCG(seed, 1))
		kind := []string{"lines", "unflagged", "chunks", "records"}[run.IntN(4)]
		text := requests(1 + run.IntN(50))
		text = text[:len(text)-run.IntN(6)]
		dialer := &cutDialer{rand: run, clean: 1 + run.IntN(3), most: 1 << (4 + run.IntN(9))}
		transport := &http.Transport{DialContext: dialer.dial}
		counted := &countedForks{RoundTripper: transport}
		cut := r.with(t, client.WithHTTPClient(&http.Client{Transport: counted}))

		whole, pieces := newListener(r.Client, kind), newListener(cut, kind)
		whole.feed(t, strings.NewReader(text), 1<<20)
		pieces.feed(t, strings.NewReader(text), 1+len(text)/(1+run.IntN(20)))
		require.Equal(t, whole.heard, pieces.heard, "seed %d", seed)
		require.Equal(t, state(t, r.Client, whole.id), state(t, r.Client, pieces.id), "seed %d",
			seed)
		cuts, forks = cuts+dialer.cuts.Load(), forks+counted.forks.Load()
		transport.CloseIdleConnections()
	}
	t.Logf("%d connections were cut, and %d forks made to tell what was lost", cuts, forks)
	require.Positive(t, cuts)
	require.Positive(t, forks)
}

// If a proxy answers in place of the server, the client does not know what the server has done.
func TestProxiesThatAnswerByThemselvesChangeNothing(t *testing.T) {
	feedThroughProxies(t, newRig(t, session.Options{}), requests(40))
}

// If tokens are words, a batch or a fork may split a word.
func TestProxiesChangeNothingOfWords(t *testing.T) {
	r := newRigOf(t, modeltest.SmallOfWords, session.Options{})
	feedThroughProxies(t, r, modeltest.WordText(60))
}

func feedThroughProxies(t *testing.T, r *rig, text string) {
	t.Helper()
	run := rand.New(rand.NewPCG(1, 1))
	var before, after int
	c := r.between(t, func(q *http.Request, pass http.RoundTripper) (*http.Response, error) {
		switch run.IntN(4) {
		case 0:
			before++
			return answer(q, http.StatusBadGateway, "text/html", "<h1>no upstream</h1>"), nil
		case 1:
			after++
			_, _ = withoutAnswer(q, pass)
			return answer(q, http.StatusGatewayTimeout, "text/html", "<h1>too slow</h1>"), nil
		}
		return pass.RoundTrip(q)
	})
	for _, kind := range []string{"lines", "unflagged", "chunks", "records"} {
		whole, pieces := newListener(r.Client, kind), newListener(c, kind)
		whole.feed(t, strings.NewReader(text), 1<<20)
		pieces.feed(t, strings.NewReader(text), 150)
		require.Equal(t, whole.heard, pieces.heard)
		require.Equal(t, state(t, r.Client, whole.id), state(t, r.Client, pieces.id))
	}
	require.Positive(t, before)
	require.Positive(t, after)
}

type listener struct {
	c     *client.Client
	id    string
	score client.ScoreOptions
	heard []string
	at    int64
}

// newListener creates a session and returns its listener. All sessions have the same seed, so that
// their results can be compared.
func newListener(c *client.Client, kind string) *listener {
	l := &listener{c: c}
	switch kind {
	case "lines":
		l.score = client.ScoreOptions{Lines: true, Tokens: true}
	case "unflagged":
		l.score = client.ScoreOptions{Lines: true, Learn: client.LearnUnflagged, Threshold: 0.3}
	case "records":
		l.score = client.ScoreOptions{Lines: true, Records: true, RecordStart: "[37]"}
	case "chunks":
		l.score = client.ScoreOptions{LogProbs: true}
	}
	err := io.ErrUnexpectedEOF
	for err != nil { // a lost answer leaves an unused session, which is harmless
		var s client.Session
		s, err = c.CreateSession(context.Background(), client.SessionRequest{Seed: new(uint64(5))})
		l.id = s.ID
	}
	return l
}

func (l *listener) feed(t require.TestingT, text io.Reader, batch int) {
	offset, err := l.c.Feed(context.Background(), l.id, text, client.FeedOptions{
		Score: l.score, BatchBytes: batch, Event: func(e client.Event) error {
			l.hear(t,
				e)
			return nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, l.at, offset)
}

func (l *listener) hear(t require.TestingT, e client.Event) {
	if e.Line != nil {
		require.Equal(t, l.at, e.Line.Offset)
		l.at += e.Line.Bytes
		l.heard = append(l.heard, fmt.Sprint(e.Line.Number, e.Line.Bits, e.Line.P, e.Line.Seen,
			e.Line.Span, deref(e.Line.Learnt), e.Line.Ended, deref(e.Line.Text), e.Line.TokenBits,
			deref(e.Line.Lines)))
		return
	}
	require.Equal(t, l.at, e.Chunk.Offset)
	l.at += e.Chunk.Bytes
	for _, p := range e.Chunk.Logprobs {
		l.heard = append(l.heard, fmt.Sprint(p))
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func state(t require.TestingT, c *client.Client, id string) []any {
	var b bytes.Buffer
	_, err := c.ExportSession(context.Background(), id, &b)
	require.NoError(t, err)
	x, err := program.ReadExport(b.Bytes())
	require.NoError(t, err)
	return []any{x.State.Metadata, x.State.Tensors, string(x.Text)}
}

type countedForks struct {
	http.RoundTripper
	forks atomic.Int64
}

func (c *countedForks) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/fork") {
		c.forks.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// cutDialer makes connections that break after a random number of bytes. About clean/4 of the
// connections do not break.
type cutDialer struct {
	clean, most int
	cuts        atomic.Int64

	mu   sync.Mutex
	rand *rand.Rand
}

func (d *cutDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand.IntN(4) < d.clean {
		return conn, nil
	}
	return &cutConn{TCPConn: conn.(*net.TCPConn), dialer: d, left: 1 + d.rand.IntN(d.most),
		answer: d.rand.IntN(2) == 0, reset: d.rand.IntN(2) == 0}, nil
}

// cutConn is a connection that breaks after a number of bytes, with a reset or an orderly close.
type cutConn struct {
	*net.TCPConn
	dialer        *cutDialer
	left          int
	answer, reset bool
}

func (c *cutConn) cut() error {
	c.dialer.cuts.Add(1)
	if c.reset {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
	return net.ErrClosed
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.answer {
		return c.TCPConn.Write(p)
	}
	n, err := c.TCPConn.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil && n < len(p) {
		err = c.cut()
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	if !c.answer {
		return c.TCPConn.Read(p)
	}
	if c.left == 0 {
		return 0, c.cut()
	}
	n, err := c.TCPConn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// ReadFrom and WriteTo replace the methods of TCPConn, which would bypass the count of bytes.
func (c *cutConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }
func (c *cutConn) WriteTo(w io.Writer) (int64, error)  { return io.Copy(w, struct{ io.Reader }{c}) }
