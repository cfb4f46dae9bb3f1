//go:build unix

package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// A server is killed with SIGKILL at random moments while clients send all kinds of requests. After
// every start, the sessions must contain all acknowledged text and nothing else. All reports of the
// server must be bit-identical to the results of an undisturbed stream. LMSERVE_CRASH_ROUNDS is the
// number of kills. LMSERVE_CRASH_SEED repeats the requests and the moments of an earlier test.
func TestKilledServerLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	rounds := program.Number(t, "LMSERVE_CRASH_ROUNDS", 3)
	seed := program.Number(t, "LMSERVE_CRASH_SEED", time.Now().UnixNano())
	c := newCrash(t, uint64(seed))
	c.keepIfFailed("LMSERVE_CRASH_SEED", seed)
	t.Logf("%d rounds, LMSERVE_CRASH_SEED=%d", rounds, seed)
	began := time.Now()
	// If every kill came before an answer to a client, further rounds follow.
	n, most := int64(0), rounds+int64(len(crashPhases))
	for ; n < rounds || c.acknowledged() == 0 && n < most; n++ {
		c.round(crashPhases[(c.first+int(n))%len(crashPhases)])
		if c.rand.IntN(10) == 0 || n+1 >= rounds {
			c.look()
		}
		require.False(t, t.Failed(), "in round %d", n)
		if n%100 == 99 {
			t.Logf("%d kills in %v", n+1, time.Since(began).Round(time.Second))
		}
	}
	c.end()
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("%d kills in %v, which have cut off %v", n, took, c.hits)
	c.report()
	require.Positive(t, c.compared)
	if rounds >= 20*int64(len(crashPhases)) {
		for _, phase := range crashPhases {
			require.Positive(t, c.hits[phase], "no kill came as the server was %s", phase)
		}
	}
}

// These are the phases in which a server is killed. Other kills come during a certain kind of
// request.
const (
	starting   = "starting"
	returning  = "recovering sessions"
	working    = "working"
	keeping    = "writing a snapshot"
	draining   = "ending"
	crashPause = 300 * time.Millisecond // maximum wait for the right moment to kill
)

// crashPhases are the phases in which a kill can come: phases of a server's life, and one phase for
// each kind of request.
var crashPhases = func() []string {
	all := []string{starting, returning, working, keeping, draining}
	for _, o := range operations() {
		all = append(all, o.name)
	}
	return all
}()

type crash struct {
	t       *testing.T
	rand    *rand.Rand
	first   int
	folder  string
	program string
	weights string
	dir     string
	model   *model.Model
	startup time.Duration
	clients []*crashClient
	events  atomic.Int64

	wanted   atomic.Pointer[operation]
	record   program.Recording // records the server's writes; nil means no recording
	mu       sync.Mutex
	hits     map[string]int
	compared int
	checked  int
	searched int
}

func newCrash(t *testing.T, seed uint64) *crash {
	c := &crash{t: t, rand: rand.New(rand.NewPCG(seed, 0)), hits: map[string]int{}}
	c.first = c.rand.IntN(len(crashPhases))
	var err error
	c.folder, err = os.MkdirTemp("", "lmserve-crash-*")
	require.NoError(t, err)
	c.program = program.Built(t, program.AsTested(t)...)
	c.dir = filepath.Join(c.folder, "disk", "data")
	c.model, err = modeltest.Small()
	require.NoError(t, err)
	c.weights, err = modeltest.SmallFile(c.folder)
	require.NoError(t, err)
	for n := range 8 {
		cl := newCrashClient(c, seed, uint64(n+1))
		c.clients = append(c.clients, cl)
		t.Cleanup(cl.worker.Close)
	}
	began := time.Now()
	p := c.start(nil)
	c.startup = time.Since(began)
	p.Kill()
	p.Wait(t)
	// A kill may also interrupt the creation of the folder.
	require.NoError(t, os.RemoveAll(c.dir))
	return c
}

// start starts the server and waits until the server listens. If fate is not nil, it runs meanwhile
// and may kill the server.
func (c *crash) start(fate func(*program.Process)) *program.Process {
	p := &program.Process{}
	cmd := program.Command(c.program, "serve", "--listen", "127.0.0.1:0", "--model", c.weights,
		"--data-dir", c.dir, "--log-format", "json", "--threads", "2",
		"--max-replay", []string{"1ns", "1ns", "1ms", "10s"}[c.rand.IntN(4)],
		"--memory-budget", fmt.Sprint([]int64{c.budget(), c.budget(), 64 << 20}[c.rand.IntN(3)]))
	first := p.Begin(c.t, cmd, c.record)
	if fate != nil {
		go fate(p)
	}
	select {
	case line := <-first:
		p.URL = program.Address(line)
	case <-time.After(time.Minute):
		p.Kill()
	}
	if fate == nil && p.URL == "" {
		p.Kill()
		<-p.End
		require.Fail(c.t, "the server does not start", p.Stderr.String())
	}
	return p
}

// keepIfFailed keeps the data folder of a failed test, and logs how to repeat the test.
func (c *crash) keepIfFailed(variable string, seed int64) {
	c.t.Cleanup(func() {
		if c.t.Failed() {
			kept, err := program.Keep(c.folder)
			c.t.Logf("%s=%d repeats this; the data folder is below %s (%v)", variable, seed, kept,
				err)
		}
	})
}

func (c *crash) report() {
	bytes, answers := c.acknowledged(), map[string]int{}
	for _, cl := range c.clients {
		for name, n := range cl.answers {
			answers[name] += n
		}
	}
	c.t.Logf("%d bytes acknowledged, answers to clients %v, %d states compared, "+
		"%d backups restored, %d pieces of deleted text looked for",
		bytes, answers, c.compared, c.checked, c.searched)
	require.Positive(c.t, bytes)
}

func (c *crash) acknowledged() (bytes int) {
	for _, cl := range c.clients {
		bytes += cl.bytes
	}
	return bytes
}

// budget returns a memory budget for three states of the largest kind, in bytes.
func (c *crash) budget() (most int64) {
	for _, k := range settingsKinds {
		most = max(most, stream.StateBytes(c.model, k.settings(c.model, 0)))
	}
	return 3 * most
}

func (c *crash) round(phase string) {
	var fate func(*program.Process)
	after := time.Duration(1 + c.rand.Int64N(int64(c.startup)*5/4))
	if phase == starting {
		fate = func(p *program.Process) { time.Sleep(after); p.Kill() }
	}
	p := c.start(fate)
	if p.URL == "" {
		p.Wait(c.t)
		c.hit(starting)
		return
	}
	c.live(p, phase)
	p.Kill()
	for _, cl := range c.clients {
		cl.wait.Wait()
	}
	p.Wait(c.t)
	if c.count("sessions/*/*.tmp") > 0 {
		c.hit(keeping)
	}
	if phase == draining && p.Killed {
		c.hit(draining)
	}
	if phase == returning || phase == working {
		c.hit(phase)
	}
}

func (c *crash) live(p *program.Process, phase string) {
	c.want(phase)
	for _, cl := range c.clients {
		cl.wait.Go(func() { cl.run(p) })
	}
	switch phase {
	case returning, starting:
	case keeping:
		c.progress(200)
		c.await(func() bool { return c.count("sessions/*/*.tmp") > 0 })
	case draining:
		c.progress(200)
		p.Terminate()
		c.pause(30 * time.Millisecond)
	case working:
		c.progress(500)
	default:
		c.progress(150)
		c.await(func() bool {
			return slices.ContainsFunc(c.clients,
				func(cl *crashClient) bool { return cl.doing.Load() == phase })
		})
		c.pause(3 * time.Millisecond)
		return
	}
	c.pause(10 * time.Millisecond)
}

func (c *crash) want(name string) {
	c.wanted.Store(nil)
	for _, o := range operations() {
		if o.name == name {
			c.wanted.Store(&o)
		}
	}
}

func (c *crash) progress(most int64) {
	until := c.events.Load() + c.rand.Int64N(most)
	for began := time.Now(); c.events.Load() < until && time.Since(began) < time.Minute; {
		time.Sleep(100 * time.Microsecond)
	}
}

func (c *crash) pause(most time.Duration) { time.Sleep(time.Duration(c.rand.Int64N(int64(most)))) }

// await waits until moment returns true, but at most crashPause, because some moments never come.
// For example, no snapshot is written with a long --max-replay.
func (c *crash) await(moment func() bool) {
	for began := time.Now(); time.Since(began) < crashPause && !moment(); {
		time.Sleep(100 * time.Microsecond)
	}
}

func (c *crash) count(pattern string) int {
	names, err := filepath.Glob(filepath.Join(c.dir, filepath.FromSlash(pattern)))
	require.NoError(c.t, err)
	return len(names)
}

func (c *crash) end() {
	p := c.start(nil)
	var wait sync.WaitGroup
	for _, cl := range c.clients {
		wait.Go(func() {
			if err := cl.askAll(p); err != nil {
				c.t.Error(err)
			}
		})
	}
	wait.Wait()
	p.Terminate()
	p.Wait(c.t)
	require.Zero(c.t, p.Status.ExitStatus())
	c.look()
	program.Must(c.t, c.program, "sessions", "replay", "--data-dir", c.dir, "--model", c.weights)
	require.Zero(c.t, c.count("*.tmp")+c.count("sessions/*/*.tmp")+c.count("making/*")+
		c.count("removed/*")+
		c.count("backup/*"), "what was left is gone")
}
