//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// Three servers share a database and suffer faults. They are killed, paused for longer than their
// leases, restarted, and cut off from the database and from each other. The database is killed, and
// its clock is changed; the object store refuses all requests. Meanwhile clients append to the same
// sessions, and ask for their offsets, through any of the servers.
//
// The answers about each session must form a linearizable history. Each session must contain
// exactly the confirmed text, with the bits that an undisturbed server computes.
//
// LMSERVE_CLUSTER_ROUNDS is the number of rounds of faults. LMSERVE_CLUSTER_SEED repeats the faults
// of an earlier test.
func TestSharedSessionsSurviveServerFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	rounds := program.Number(t, "LMSERVE_CLUSTER_ROUNDS", 12)
	seed := program.Number(t, "LMSERVE_CLUSTER_SEED", time.Now().UnixNano())
	t.Logf("%d rounds, LMSERVE_CLUSTER_SEED=%d", rounds, seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	c := newClusterRig(t)
	undisturbed := program.Serve(t, c.program, "--model", c.weights)
	defer undisturbed.Stop(t)
	alone, err := client.New(undisturbed.URL)
	require.NoError(t, err)
	done, answers := map[string]int{}, map[string]int{}
	faults := c.faults()
	for n := int64(0); n < rounds; {
		h := c.newHistories(t, uint64(seed)+uint64(n))
		for range min(20, rounds-n) {
			var all sync.WaitGroup
			order := r.Perm(len(faults))
			for i := range 1 + r.IntN(2) {
				f, at, d := faults[order[i]], (r.IntN(3)+i)%3,
					time.Duration(r.Int64N(int64(2*leaseOfFaults)))
				done[f.name]++
				all.Go(func() {
					from := c.now()
					f.do(at, d)
					c.t.Logf("%v to %v: %s (%d)", from, c.now(), f.name, at)
				})
			}
			all.Wait()
			time.Sleep(time.Duration(r.Int64N(int64(leaseOfFaults))))
			n++
		}
		h.end()
		for id, s := range h.sessions {
			s.check(t, c, alone, id, answers)
		}
		if t.Failed() {
			return
		}
		t.Logf("after %d rounds: %v, clients were told %v", n, done, answers)
	}
	require.Positive(t, answers[appended])
	require.Positive(t, answers[theOffset])
}

type fault struct {
	name string
	do   func(server int, d time.Duration)
}

func (c *clusterRig) faults() []fault {
	var sharing sync.Mutex
	once := func(do func(int, time.Duration)) func(int, time.Duration) {
		return func(i int, d time.Duration) {
			c.nodes[i].one.Lock()
			defer c.nodes[i].one.Unlock()
			do(i, d)
		}
	}
	all := []fault{
		{"a server is killed",
			once(func(i int, d time.Duration) { c.nodes[i].killFor(c.program, d) })},
		{"a server is stopped",
			once(func(i int, d time.Duration) { c.nodes[i].stopFor(d + leaseOfFaults/2) })},
		{"a server is ended", once(func(i int, d time.Duration) { c.nodes[i].restart(c.program) })},
		{"the way to the database is cut", func(i int, d time.Duration) {
			c.nodes[i].proxy.Hold()
			time.Sleep(d)
			c.nodes[i].proxy.Release()
		}},
		{"connections to the database break",
			func(i int, _ time.Duration) { c.nodes[i].proxy.Cut() }},
		{"the database is killed", func(_ int, d time.Duration) {
			sharing.Lock()
			defer sharing.Unlock()
			c.database.Kill()
			time.Sleep(d / 4)
			require.NoError(c.t, c.database.Start())
		}},
		{"the object store refuses", func(i int, d time.Duration) {
			c.objects.refuses.Store(true)
			defer c.objects.refuses.Store(false)
			once(func(i int, _ time.Duration) { c.nodes[i].restart(c.program) })(i, d)
		}},
	}
	if c.isles != nil {
		all = append(all, fault{"a server is off the network", once(func(i int, d time.Duration) {
			c.isles.cutFor(c.t, i, d)
		})})
	}
	if c.clocked {
		all = append(all, fault{"the clock of the database is set", func(_ int, d time.Duration) {
			sharing.Lock()
			defer sharing.Unlock()
			for _, later := range []time.Duration{time.Hour, -time.Hour, 0} {
				require.NoError(c.t, c.database.SetClock(later))
				time.Sleep(d / 3)
			}
		}})
	}
	return all
}

type clusterHistories struct {
	sessions map[string]*history
	stop     context.CancelFunc
	clients  sync.WaitGroup
}

type history struct {
	mu  sync.Mutex
	all []told
}

// told is a client's request to a session, with the answer. A request with a text appends the text
// at offset `at`. A request without a text asks for the session's offset.
type told struct {
	client      int
	call, ended time.Duration
	at          int64
	text        string
	what        string
	offset      int64 // the session's offset after the request; unused if what is nobodyKnows
}

const (
	appended    = "appended"
	elsewhere   = "it is elsewhere"
	theOffset   = "the offset"
	nobodyKnows = "nobody knows"
)

const (
	historySessions = 3
	historyClients  = 2
	historyPatience = 3 * leaseOfFaults / 2
	historyPause    = 20 * time.Millisecond // mean pause between two requests of a client
	// neverEnds is the end of a request that may still take effect at any time.
	neverEnds = time.Duration(math.MaxInt64 / 2)
)

func (c *clusterRig) newHistories(t *testing.T, seed uint64) *clusterHistories {
	ctx, stop := context.WithCancel(t.Context())
	h := &clusterHistories{sessions: map[string]*history{}, stop: stop}
	maker, err := client.New(c.nodes[0].url, client.WithPatience(time.Minute))
	require.NoError(t, err)
	for s := range historySessions {
		info, err := maker.CreateSession(ctx, client.SessionRequest{Seed: new(uint64)})
		require.NoError(t, err)
		one := &history{}
		h.sessions[info.ID] = one
		for n := range historyClients {
			h.clients.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(s*historyClients+n)))
				c.use(ctx, one, info.ID, n, r)
			})
		}
	}
	return h
}

func (h *clusterHistories) end() {
	h.stop()
	h.clients.Wait()
}

func (c *clusterRig) use(ctx context.Context, h *history, id string, number int, r *rand.Rand) {
	for at := int64(0); ctx.Err() == nil; {
		time.Sleep(time.Duration(r.Int64N(int64(2 * historyPause))))
		through, err := client.New(c.nodes[r.IntN(len(c.nodes))].url)
		require.NoError(c.t, err)
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyPatience)
		is := told{client: number, call: c.now(), at: at}
		if r.IntN(4) > 0 {
			is.text = fmt.Sprintf("%016x of %d", r.Uint64(), number) + strings.Repeat(".",
				r.IntN(40))
			_, err = through.ScoreText(asking, id, []byte(is.text),
				client.ScoreOptions{Offset: &is.at})
			is.what, is.offset = appended, is.at+int64(len(is.text))
		} else {
			var info client.Session
			info, err = through.GetSession(asking, id)
			is.what, is.offset = theOffset, info.Offset
		}
		cancel()
		is.ended = c.now()
		var refused *client.Error
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.Type == client.ProblemOffsetConflict &&
			refused.Offset != nil:
			is.what, is.offset = elsewhere, *refused.Offset
		case client.Is(err, client.ProblemSessionBusy), is.text == "":
			// A busy session appends nothing, and a failed request for the offset gives no
			// information.
			continue
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			c.t.Errorf("session %s: %v", id, err)
			return
		default: // The text of a failed request may still reach the session at any time.
			is.what, is.offset, is.ended = nobodyKnows, is.at, neverEnds
		}
		at = is.offset
		h.mu.Lock()
		h.all = append(h.all, is)
		h.mu.Unlock()
	}
}

// parts splits an appended text into chunks, because each chunk takes effect separately. It returns
// nil for a text that never reached the session.
func (is told) parts() (all []told) {
	switch is.what {
	case nobodyKnows:
		return nil
	case appended:
		for at := is.at; at < is.offset; {
			part := is
			part.at, part.offset = at, min(is.offset, (at/modeltest.Chunk+1)*modeltest.Chunk)
			all, at = append(all, part), part.offset
		}
		return all
	}
	return []told{is}
}

// oneSession is the porcupine model of a session. Its state is the session's offset.
var oneSession = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, _, output any) (bool, any) {
		is := output.(told)
		if is.what == appended {
			return state == is.at, is.offset
		}
		return state == is.offset, state
	},
	DescribeOperation: func(_, output any) string {
		is := output.(told)
		return fmt.Sprintf("%d bytes at %d: %s, %d", len(is.text), is.at, is.what, is.offset)
	},
}

func (h *history) check(
	t *testing.T, c *clusterRig, alone *client.Client, id string, answers map[string]int,
) {
	for _, is := range h.all {
		answers[is.what]++
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var text []byte
	var info client.Session
	for i, n := range c.nodes {
		cl, err := client.New(n.url, client.WithPatience(time.Minute))
		require.NoError(t, err)
		at, err := cl.GetSession(ctx, id)
		require.NoError(t, err, "%s", n.name)
		require.True(t, i == 0 || info.Offset == at.Offset, "%s: session %s", n.name, id)
		info = at
		text, err = cl.Text(ctx, id, 0, max(1, info.Offset))
		require.NoError(t, err)
		require.Len(t, text, int(info.Offset))
	}
	folder, err := os.MkdirTemp("", "lmserve-history-")
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "history.txt"),
				fmt.Appendf(nil, "%+v\n%s\n", h.all, text), 0o600))
			folder, err = program.Keep(folder)
			require.NoError(t, err)
			t.Logf("what clients were told of session %s, and its text: see %s", id, folder)
		}
	}()
	h.resolve(t, id, text)
	last := told{call: neverEnds, ended: neverEnds, what: theOffset, offset: info.Offset}
	var operations []porcupine.Operation
	for _, is := range append(h.all, last) {
		for _, part := range is.parts() {
			operations = append(operations, porcupine.Operation{
				ClientId: is.client, Call: int64(is.call), Return: int64(is.ended), Output: part,
			})
		}
	}
	result, about := porcupine.CheckOperationsVerbose(oneSession, operations, time.Minute)
	if result != porcupine.Ok {
		require.NoError(t, porcupine.VisualizePath(oneSession, about,
			filepath.Join(folder, "history.html")))
		t.Errorf("session %s: this is no history of one session in one place (%s)\n%s", id, result,
			impossible(about, operations))
	}
	twin, err := alone.CreateSession(ctx, client.SessionRequest{Seed: new(uint64)})
	require.NoError(t, err)
	if len(text) > 0 {
		_, err = alone.ScoreText(ctx, twin.ID, text, client.ScoreOptions{})
		require.NoError(t, err)
	}
	same, err := alone.GetSession(ctx, twin.ID)
	require.NoError(t, err)
	require.Equal(t, same.Totals.Bits, info.Totals.Bits, "session %s", id)
}

// impossible explains why no order of the operations is valid. It lists the last operations of the
// longest valid order that was found. It also lists the operations that could be next in time, but
// are all invalid there.
func impossible(about porcupine.LinearizationInfo, all []porcupine.Operation) string {
	var longest []int
	for _, orders := range about.PartialLinearizations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var text strings.Builder
	describe := func(n int) {
		o := all[n]
		fmt.Fprintf(&text, "  client %d, %v to %v: %s\n", o.ClientId, time.Duration(o.Call),
			time.Duration(o.Return), oneSession.DescribeOperation(o.Input, o.Output))
	}
	fmt.Fprintf(&text, "%d of %d operations have an order, which ends with:\n", len(longest),
		len(all))
	for _, n := range longest[max(0, len(longest)-10):] {
		describe(n)
	}
	first := int64(math.MaxInt64)
	for n, o := range all {
		if !slices.Contains(longest, n) {
			first = min(first, o.Return)
		}
	}
	text.WriteString("one of these comes next, and none can:\n")
	for n, o := range all {
		if !slices.Contains(longest, n) && o.Call <= first {
			describe(n)
		}
	}
	return text.String()
}

// resolve finds the request that appended each piece of a session's text. So it learns which
// appends with an unknown outcome took effect. The texts of all requests begin differently.
func (h *history) resolve(t *testing.T, id string, text []byte) {
	for at := int64(0); at < int64(len(text)); {
		var length int64
		var of *told
		for n := range h.all {
			is := &h.all[n]
			if is.at != at || is.text == "" || is.what == elsewhere {
				continue
			}
			there := alike(is.text, text[at:])
			// Only whole chunks count, because the text after them may match by chance.
			if there < int64(len(is.text)) {
				there = (at+there)/modeltest.Chunk*modeltest.Chunk - at
			}
			if there > length {
				length, of = there, is
			}
		}
		require.Positive(t, length, "session %s at %d: %q is nobody's", id, at, text[at:])
		at += length
		if of.what == nobodyKnows { // The server may have appended only a part of the text.
			of.what, of.offset = appended, at
		}
		require.Equal(t, of.offset, at, "session %s: %q at %d was confirmed", id, of.text, of.at)
	}
	for _, is := range h.all {
		require.LessOrEqual(t, is.offset, int64(len(text)), "session %s: %v", id, is)
	}
}

func alike(a string, b []byte) (n int64) {
	for int(n) < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
