package session

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
	"github.com/lmserve/lmserve/internal/serving/session/lifecycle"
	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// BenchmarkWaitsBesideManySessions measures how long a chunk waits for the locks of the registry,
// the budget and the lifecycle. Meanwhile 100,000 sessions are listed, expire, or take memory from
// each other without a pause.
//
// The "elsewhere" cases run the same load on sessions that share no lock with the chunks. There,
// chunks wait only for the processor, which is most of the wait on a busy machine. hold-ms is the
// longest processor time of a call that holds a lock.
func BenchmarkWaitsBesideManySessions(b *testing.B) {
	const sessions, chunks = 100_000, 200_000
	here, elsewhere := newCrowd(b, sessions), newCrowd(b, sessions)
	for _, x := range []struct {
		name   string
		others func(c *crowd)
		crowd  *crowd
	}{
		{"list", (*crowd).list, here}, {"list elsewhere", (*crowd).list, elsewhere},
		{"expire", (*crowd).expire, here}, {"expire elsewhere", (*crowd).expire, elsewhere},
		{"budget", (*crowd).evict, here}, {"budget elsewhere", (*crowd).evict, elsewhere},
	} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				x.crowd.held = 0
				waits := here.waits(chunks, func() { x.others(x.crowd) }, x.crowd)
				for of, part := range map[string]float64{"p50": .5, "p99": .99, "max": 1} {
					at := min(int(part*chunks), chunks-1)
					b.ReportMetric(waits[at].Seconds()*1e3, of+"-ms")
				}
				b.ReportMetric(x.crowd.held.Seconds()*1e3, "hold-ms")
			}
		})
	}
}

// crowd is an index of many sessions without a model. The index calls that a chunk makes need no
// model.
type crowd struct {
	index  *index
	all    []*session
	serial int
	done   chan struct{}
	held   time.Duration
}

func newCrowd(t testing.TB, n int) *crowd {
	store := storage.NewMemory()
	h := &host{
		store: store, lease: &lease{Lease: ownLease{}, own: true}, clock: &clock{read: time.Now},
		budget:   budget.New[*session](budget.Options{Max: int64(n)}),
		life:     lifecycle.New(ownLease{}.Err, func() {}),
		observer: unobserved{}, logError: func(error) {},
	}
	c := &crowd{index: &index{host: h, registry: registry.New[*session](2 * n)}}
	c.index.catalog = ownCatalog{c.index}
	h.gone, h.claimed = c.index.remove, c.index.catalog.claimed
	c.index.life.Serve()
	for range n {
		s := c.add(time.Duration(n%2) * time.Hour)
		want, err := s.memory.Reserve(1)
		require.NoError(t, err)
		require.False(t, want.Asked)
		s.memory.Rest()
		c.all = append(c.all, s)
	}
	runtime.GC()
	return c
}

func (c *crowd) add(ttl time.Duration) *session {
	c.serial++
	h := head{
		ID: fmt.Sprintf("%08d", c.serial), Owner: fmt.Sprint(c.serial % 100), TTL: ttl,
		Settings: stream.Settings{Method: stream.Static, Chunk: 128},
		Numerics: []numerics{{Name: "any"}},
	}
	s := newSession(c.index.host, storedSession{head: h, lastUsed: time.Now()})
	c.index.registry.Add(s.entry, time.Now())
	return s
}

// waits measures how long each of a number of chunks of the crowd c waits, and returns the times in
// ascending order. Meanwhile it runs others, a function that loads the crowd passed as at.
func (c *crowd) waits(chunks int, others func(), at *crowd) []time.Duration {
	at.done = make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		others()
	})
	waits := make([]time.Duration, chunks)
	for i := range waits {
		s := c.all[i*7919%len(c.all)]
		begun := time.Now()
		c.chunk(s)
		waits[i] = time.Since(begun)
	}
	close(at.done)
	wait.Wait()
	slices.Sort(waits)
	return waits
}

func (c *crowd) chunk(s *session) {
	r := c.index
	if r.life.Enter() != nil || !r.registry.Use(s.entry, time.Now()) {
		return
	}
	s.memory.Work()
	_ = s.memory.Charge(0)
	r.registry.Touch(s.entry, time.Now())
	s.memory.Rest()
	r.registry.Done(s.entry)
	r.life.Leave()
}

func (c *crowd) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *crowd) hold(call func()) {
	begun := processorTime()
	call()
	c.held = max(c.held, processorTime()-begun)
}

func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// list lists all sessions, then the sessions of one owner, page by page, as ownCatalog.list does.
func (c *crowd) list() {
	r := c.index
	for !c.over() {
		for _, owner := range []string{"all", "7"} {
			for after, more := "", true; more && !c.over(); {
				var page []*registry.Entry[*session]
				c.hold(func() {
					if owner == "all" {
						page, more = r.registry.Page(after, ListMax, time.Now())
					} else {
						page, more = r.registry.PageOf(owner, after, ListMax, time.Now())
					}
				})
				var accounts []*budget.Account[*session]
				for _, e := range page {
					accounts, after = append(accounts, e.Value.memory), e.ID
				}
				c.hold(func() { r.budget.BytesOf(accounts) })
				for _, e := range page {
					r.info(Caller{}, e.Value)
				}
			}
		}
	}
}

// expire makes sessions and lets them expire, 1000 at a time, as index.sweep does.
func (c *crowd) expire() {
	for !c.over() {
		for range 1000 {
			c.add(1)
		}
		for more := true; more; {
			c.hold(func() {
				more = len(c.index.registry.Expire(time.Now(),
					sweepBatch)) == sweepBatch
			})
		}
	}
}

// evict reserves memory for a session, and evicts the state of the session that was idle longest.
func (c *crowd) evict() {
	late := c.index.budget.OpenOn(nil, nil)
	for !c.over() {
		var want budget.Want[*session]
		c.hold(func() { want, _ = late.Reserve(1) })
		switch {
		case want.Asked:
			c.hold(want.Victim.memory.Release)
			late.Release()
			_, _ = want.Victim.memory.Reserve(1)
			want.Victim.memory.Rest()
		default:
			late.Release()
		}
	}
}
