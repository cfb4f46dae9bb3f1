package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is a Directory in memory, with a clock that the test sets.
type book struct {
	mu    sync.Mutex
	now   time.Time
	until map[string]time.Time
	down  bool
	asked int

	others []Node
}

func (b *book) Renew(_ context.Context, self Node, lease time.Duration) (lapsed bool, alive []Node,
	err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.down {
		return false, nil, errors.New("down")
	}
	lapsed = !b.until[self.ID].After(b.now)
	b.until[self.ID] = b.now.Add(lease)
	return lapsed, append([]Node{self}, b.others...), nil
}

func (b *book) Leave(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.until, id)
	return nil
}

func (b *book) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *book) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *book) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// joined returns a member whose lease of ten hours is renewed only by the test.
func joined(t *testing.T, b *book, report func(error)) *Member {
	m, err := Join(t.Context(), Options{
		Self: Node{ID: "a-1", Name: "a"}, Directory: b, Lease: 10 * time.Hour, Now: b.clock,
		Report: report,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Leave(context.Background())) })
	return m
}

func TestMemberStopsBeforeLeaseEndsAndBeginsNewTerm(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	m := joined(t, b, nil)
	first := m.Term()
	for range 5 {
		b.pass(7 * time.Hour)
		require.NoError(t, m.Err())
		require.NoError(t, m.Renew(t.Context()))
	}
	require.Equal(t, first, m.Term())
	b.setDown(true)
	b.pass(8*time.Hour - time.Nanosecond)
	require.Error(t, m.Renew(t.Context()))
	require.NoError(t, m.Err())
	b.pass(time.Nanosecond)
	require.ErrorIs(t, m.Err(), ErrLapsed)
	require.True(t, b.until["a-1"].After(b.now), "the directory gives it longer")
	b.setDown(false)
	require.NoError(t, m.Renew(t.Context()))
	require.NoError(t, m.Err())
	require.Greater(t, m.Term(), first, "although nobody can have taken anything")
}

// A computer's monotonic clock may stop while the computer sleeps. Then only the directory knows
// that the lease has lapsed.
func TestTermEndsWhenDirectorySaysSo(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	m := joined(t, b, nil)
	first := m.Term()
	b.until["a-1"] = b.now.Add(-time.Second)
	require.NoError(t, m.Renew(t.Context()))
	require.Greater(t, m.Term(), first)
}

func TestLeaseCountsFromBeforeItsRenewal(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	m := joined(t, b, nil)
	slow := &slowBook{book: b, takes: 7 * time.Hour}
	m.directory = slow
	require.NoError(t, m.Renew(t.Context()))
	b.pass(time.Hour)
	require.ErrorIs(t, m.Err(), ErrLapsed)
}

// A process may be stopped between the answer of the directory and the next look at the clock.
func TestLateRenewalIsReportedWithReason(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	var told []string
	m := joined(t, b, func(err error) { told = append(told, err.Error()) })
	m.directory = &slowBook{book: b, takes: 9 * time.Hour}
	err := m.Renew(t.Context())
	require.NoError(t, err)
	m.tell(err)
	require.Equal(t, []string{ErrLapsed.Error() + ": " + errPaused.Error()}, told)
}

// Many requests at once may look for a server that has just joined.
func TestRequestsShareOneLook(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	m := joined(t, b, nil)
	stuck := &stuckBook{book: b, answers: make(chan struct{})}
	m.directory = stuck
	b.pass(time.Hour)
	before := b.asked
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { m.Look(t.Context()) })
	}
	time.Sleep(10 * time.Millisecond) // all wait
	left, leave := context.WithCancel(t.Context())
	leave()
	m.Look(left) // does not wait for the others
	close(stuck.answers)
	all.Wait()
	require.Equal(t, before+1, b.asked)
}

type stuckBook struct {
	*book
	answers chan struct{}
}

func (s *stuckBook) Renew(ctx context.Context, self Node, lease time.Duration) (bool, []Node,
	error) {
	<-s.answers
	return s.book.Renew(ctx, self, lease)
}

type slowBook struct {
	*book
	takes time.Duration
}

func (s *slowBook) Renew(ctx context.Context, self Node, lease time.Duration) (bool, []Node,
	error) {
	defer s.pass(s.takes)
	return s.book.Renew(ctx, self, lease)
}

func TestMemberRenewsItsLeaseOrReportsFailure(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	told := make(chan error, 16)
	m, err := Join(t.Context(), Options{
		Self: Node{ID: "a"}, Directory: b, Lease: LeaseMin, Now: b.clock,
		Report: func(err error) { told <- err },
	})
	require.NoError(t, err)
	asked := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.asked
	}
	before := asked()
	require.Eventually(t, func() bool { return asked() > before+2 }, time.Minute, time.Millisecond)
	b.setDown(true)
	b.pass(LeaseMin)
	require.ErrorIs(t, <-told, ErrLapsed)
	b.setDown(false)
	require.ErrorContains(t, <-told, "was renewed")
	require.NoError(t, m.Drain(t.Context()))
	require.True(t, m.Alive()[0].Draining)
	require.NoError(t, m.Leave(t.Context()))
	require.Empty(t, b.until)
}

func TestLeaseHasMinimum(t *testing.T) {
	_, err := Join(t.Context(), Options{Directory: &book{}, Lease: time.Millisecond})
	require.ErrorContains(t, err, "expected at least 100ms")
}

func nodes(n int) (all []Node) {
	for i := range n {
		all = append(all, Node{Name: fmt.Sprint("node-", i), Models: []string{"m"},
			Numerics: "fma"})
	}
	return all
}

func TestLeavingNodeTakesOnlyItsKeys(t *testing.T) {
	const keys = 4000
	all := nodes(5)
	count := map[string]int{}
	for k := range keys {
		key := fmt.Sprint("session-", k)
		at, found := Rendezvous(all, key, "m", "fma")
		require.True(t, found)
		count[at.Name]++
		left, _ := Rendezvous(all[:4], key, "m", "fma")
		if at.Name != "node-4" {
			require.Equal(t, at.Name, left.Name)
		}
	}
	// for an expected value of 800 keys, the standard deviation is about 25
	for name, n := range count {
		require.InDelta(t, keys/len(all), n, 6*25, name)
	}
}

// A draining node and a node without the model get no session. Among the other nodes, nodes with
// the session's arithmetic are preferred.
func TestSessionGoesToNodeWithSameArithmetic(t *testing.T) {
	all := nodes(4)
	all[1].Numerics, all[2].Models, all[3].Draining = "portable", []string{"other"}, true
	for k := range 50 {
		key := fmt.Sprint(k)
		at, found := Rendezvous(all, key, "m", "fma")
		require.True(t, found)
		require.Equal(t, "node-0", at.Name)
		at, _ = Rendezvous(all, key, "m", "portable")
		require.Equal(t, "node-1", at.Name)
		at, _ = Rendezvous(all, key, "m", "neon")
		require.Contains(t, []string{"node-0", "node-1"}, at.Name,
			"another arithmetic is better than none")
		_, found = Rendezvous(all, key, "unknown", "fma")
		require.False(t, found)
	}
	_, found := Rendezvous(nil, "key", "", "")
	require.False(t, found)
}

// A paused server notices the lapse of its lease only when it has renewed the lease.
func TestLapseDuringPauseIsReported(t *testing.T) {
	b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}}
	var told []error
	m := joined(t, b, func(err error) { told = append(told, err) })
	m.tell(m.Renew(t.Context()))
	require.Empty(t, told)
	b.pass(30 * time.Hour)
	for range 2 {
		m.tell(m.Renew(t.Context()))
	}
	require.Len(t, told, 2)
	require.ErrorIs(t, told[0], ErrLapsed)
	require.ErrorContains(t, told[1], "was renewed")
	b.setDown(true)
	b.pass(9 * time.Hour)
	m.tell(m.Renew(t.Context()))
	b.setDown(false)
	m.tell(m.Renew(t.Context()))
	m.tell(m.Renew(t.Context()))
	require.Len(t, told, 4)
	require.ErrorContains(t, told[2], "down")
	require.ErrorContains(t, told[3], "was renewed")
}
