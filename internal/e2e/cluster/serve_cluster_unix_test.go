//go:build unix

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

type node struct {
	t     *testing.T
	name  string
	in    []string // command prefix that runs the server in a network namespace
	args  []string
	url   string
	alive *program.Process
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (n *node) start(lmserve string) {
	require.True(n.t, n.begin(lmserve), "%s: %s", n.name, &n.alive.Stderr)
}

// begin is like start, but returns false if the server does not serve.
func (n *node) begin(lmserve string) bool {
	n.alive = &program.Process{}
	all := slices.Concat(n.in, []string{lmserve}, n.args)
	first := n.alive.Begin(n.t, program.Command(all[0], all[1:]...), nil)
	if strings.Contains(<-first, n.url) {
		return true
	}
	n.alive.Kill()
	<-n.alive.End
	return false
}

func (n *node) metric(name string) (value float64) {
	answer, err := http.Get(n.url + "/metrics")
	require.NoError(n.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	found := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindSubmatch(text)
	require.NotNil(n.t, found, name)
	_, err = fmt.Sscan(string(found[1]), &value)
	require.NoError(n.t, err)
	return value
}

// writer feeds a session through one address. It measures the longest time between two events.
type writer struct {
	id, text string
	bits     float64
	longest  time.Duration
	err      error
}

func (w *writer) run(ctx context.Context, c *client.Client) {
	var at int64
	last := time.Now()
	f := c.NewFeeder(w.id, client.FeedOptions{Event: func(e client.Event) error {
		w.longest, last = max(w.longest, time.Since(last)), time.Now()
		if e.Chunk != nil {
			w.bits, at = w.bits+e.Chunk.Bits, e.Chunk.Offset+e.Chunk.Bytes
		}
		return nil
	}})
	for rest := w.text; rest != "" && w.err == nil; {
		n := min(len(rest), 37)
		w.err = f.Feed(ctx, []byte(rest[:n]))
		rest = rest[n:]
		time.Sleep(30 * time.Millisecond)
	}
	if w.err == nil && at != int64(len(w.text)) {
		w.err = fmt.Errorf("the last event ends at %d, expected %d", at, len(w.text))
	}
}

// Clients know the address of only one server. The other servers are killed, paused for longer than
// their lease, and restarted. Every session must contain its text once and in order, with the bits
// that an undisturbed server computes.
func TestThreeServersServeSessionsLikeOne(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	c := newClusterRig(t)
	lmserve, file, nodes := c.program, c.weights, c.nodes
	require.Eventually(t, func() bool { return nodes[0].metric("lmserve_servers") == 3 },
		time.Minute, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	through, err := client.New(nodes[0].url, client.WithPatience(time.Minute))
	require.NoError(t, err)
	text := program.Log(t, 15_000)
	text += text
	var writers []*writer
	var all sync.WaitGroup
	for i := range 6 {
		s, made, err := through.EnsureSession(ctx, fmt.Sprint("stream-", i),
			client.SessionRequest{Seed: new(uint64)})
		require.NoError(t, err)
		require.True(t, made)
		w := &writer{id: s.ID, text: text[i*1000:][:20_000]}
		writers = append(writers, w)
		all.Go(func() { w.run(ctx, through) })
	}
	offsets := func() (sum int64) {
		for _, w := range writers {
			s, err := through.GetSession(ctx, w.id)
			require.NoError(t, err)
			sum += s.Offset
		}
		return sum
	}
	goOn := func() {
		from := offsets()
		require.Eventually(t, func() bool { return offsets() > from+2000 || from > 110_000 },
			time.Minute, 10*time.Millisecond)
	}
	goOn()
	require.Positive(t, nodes[0].metric("lmserve_proxied_requests_total"))
	require.Positive(t, nodes[1].metric("lmserve_claims_total")+
		nodes[2].metric("lmserve_claims_total")+
		nodes[1].metric(`lmserve_sessions{state="hot"}`)+
		nodes[2].metric(`lmserve_sessions{state="hot"}`))

	nodes[1].alive.Kill()
	<-nodes[1].alive.End
	goOn()
	nodes[1].start(lmserve)
	goOn()
	require.NoError(t, nodes[2].alive.System.Signal(syscall.SIGSTOP))
	time.Sleep(2 * leaseOfFaults) // The pause is longer than the lease, even if clocks differ.
	goOn()
	require.NoError(t, nodes[2].alive.System.Signal(syscall.SIGCONT))
	goOn()
	// The restarts below set the counters to zero, so they are read here.
	require.Eventually(t, func() bool {
		return nodes[0].metric("lmserve_takeovers_total")+
			nodes[1].metric("lmserve_takeovers_total")+
			nodes[2].metric("lmserve_takeovers_total") > 0
	}, time.Minute, 10*time.Millisecond)
	for _, w := range writers {
		w.longest = 0
	}
	for _, n := range nodes[1:] {
		n.alive.Terminate()
		<-n.alive.End
		require.Zero(t, n.alive.Status.ExitStatus(), &n.alive.Stderr)
		n.start(lmserve)
		goOn()
	}
	all.Wait()
	undisturbed := program.Serve(t, lmserve, "--model", file)
	defer undisturbed.Stop(t)
	alone, err := client.New(undisturbed.URL)
	require.NoError(t, err)
	for _, w := range writers {
		require.NoError(t, w.err)
		t.Logf("the longest time without an event during the upgrade: %v", w.longest)
		answer, err := http.Get(nodes[0].url + "/v1/sessions/" + w.id + "/text?length=1000000")
		require.NoError(t, err)
		got, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, w.text, string(got))
		s, err := through.GetSession(ctx, w.id)
		require.NoError(t, err)
		twin, err := alone.CreateSession(ctx, client.SessionRequest{Seed: new(uint64)})
		require.NoError(t, err)
		_, err = alone.Feed(ctx, twin.ID, strings.NewReader(w.text), client.FeedOptions{})
		require.NoError(t, err)
		same, err := alone.GetSession(ctx, twin.ID)
		require.NoError(t, err)
		require.Equal(t, same.Totals.Bits, s.Totals.Bits)
		require.InDelta(t, s.Totals.Bits, w.bits, 1e-6*s.Totals.Bits,
			"what the events have told, once each")
	}
}
