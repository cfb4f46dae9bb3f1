package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/cluster"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

// database is a database that servers share. Leases last an hour by the servers' clocks, which the
// test sets.
type database struct {
	server  *pgtest.Server
	name    string
	options postgres.Options
	admin   *postgres.Store // belongs to no server
}

func newDatabase(t *testing.T) *database {
	server := pgtest.New(t)
	name := server.Database(t)
	url := server.URL(name)
	_, _, err := postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	d := &database{server: server, name: name, options: postgres.Options{
		Database: url, Objects: "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "objects")),
		Terms: TermsOf,
	}}
	d.admin, err = postgres.Open(t.Context(), d.options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.admin.Close()) })
	return d
}

type peer struct {
	*Manager
	name   string
	store  *postgres.Store
	member *cluster.Member
	on     *database

	mu  sync.Mutex
	now time.Time
}

const leaseOfTests = time.Hour

func (s *peer) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (d *database) join(t *testing.T, name string, told Observer) *peer {
	s := &peer{name: name, on: d, now: time.Unix(1e9, 0)}
	o := d.options
	o.Node = name
	var err error
	s.store, err = postgres.Open(t.Context(), o)
	require.NoError(t, err)
	s.member, err = cluster.Join(t.Context(), cluster.Options{
		Self:      cluster.Node{ID: name, Name: name, Models: []string{testModel(t).Hash()}},
		Directory: s.store, Lease: leaseOfTests, Now: s.clock,
	})
	require.NoError(t, err)
	s.Manager, err = NewManager(testModel(t), Options{
		Store: s.store, Lease: s.member, Threads: 1, Observer: told,
		Report: func(err error) { t.Log(name, err) },
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, s.member.Leave(ctx))
		require.NoError(t, s.store.Close())
	})
	return s
}

// lose ends the lease of the server, as if its heartbeat had stopped. The server itself notices the
// end before the other servers.
func (s *peer) lose(t testing.TB) {
	s.mu.Lock()
	s.now = s.now.Add(leaseOfTests)
	s.mu.Unlock()
	s.on.server.Exec(t, s.on.name, `delete from nodes where id = '`+s.name+`'`)
}

func (s *peer) regain(t testing.TB) { require.NoError(t, s.member.Renew(context.Background())) }

func (s *peer) tend(term uint64) {
	s.index.catalog.(*sharedCatalog).tend(term, s.subscribers.cut)
}

func (s *peer) score(id, text string, at *int64) (Summary, error) {
	sum, _, err := s.feed(id, text, at)
	return sum, err
}

func (s *peer) feed(id, text string, at *int64) (sum Summary, end int64, err error) {
	if at != nil {
		end = *at
	}
	sum, err = s.Score(context.Background(), Caller{}, id, strings.NewReader(text),
		ScoreOptions{Offset: at},
		func(c Chunk) error {
			end = c.end()
			return nil
		})
	return sum, end, err
}

func bitsAlone(t *testing.T, r CreateRequest, text string) float64 {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, r)
	_, sum := score(t, mg, id, text)
	return sum.Total.Bits
}

func TestServersShareTheirSessions(t *testing.T) {
	d := newDatabase(t)
	a, b := d.join(t, "a", nil), d.join(t, "b", nil)
	who, text := Caller{}, logText(5*testChunk+3)
	info, made, err := a.Put(t.Context(), who, "news", CreateRequest{Seed: ptr(uint64(3)),
		Labels: map[string]string{"x": "1"}})
	require.NoError(t, err)
	require.True(t, made)
	_, err = a.score("news", text[:50], nil)
	require.NoError(t, err)
	require.True(t, a.Holds(info.ID))
	require.False(t, b.Holds(info.ID))

	for _, name := range []string{"news", info.ID} {
		seen, err := b.Get(who, name)
		require.NoError(t, err)
		require.Equal(t, []any{info.ID, int64(50), "news"}, []any{seen.ID, seen.Offset, seen.Name})
		_, err = b.score(name, text[50:], nil)
		require.ErrorIs(t, err, ErrElsewhere)
		_, err = b.Complete(t.Context(), who, name, CompleteRequest{MaxTokens: 1}, noPieces)
		require.ErrorIs(t, err, ErrElsewhere)
		require.ErrorIs(t, b.Watch(t.Context(), who, name, WatchOptions{}, nil), ErrElsewhere)
		_, err = b.Patch(t.Context(), who, name, PatchRequest{Name: ptr("olds")})
		require.ErrorIs(t, err, ErrElsewhere)
	}
	_, made, err = b.Put(t.Context(), who, "news", CreateRequest{})
	require.NoError(t, err)
	require.False(t, made)
	_, err = b.Get(Caller{Key: "stranger"}, info.ID)
	require.ErrorIs(t, err, ErrNotFound)

	_, err = a.score("news", text[50:60], nil)
	require.NoError(t, err)
	seen, err := b.Get(who, "news")
	require.NoError(t, err)
	require.Equal(t, int64(60), seen.Offset, "what was known is looked up again")
	_, err = a.Patch(t.Context(), who, "news", PatchRequest{Name: ptr("olds"),
		Labels: map[string]*string{"x": nil, "y": ptr("2")}})
	require.NoError(t, err)
	_, err = b.Get(who, "news")
	require.ErrorIs(t, err, ErrNotFound)
	seen, err = b.Get(who, "olds")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"y": "2"}, seen.Labels)
	_, made, err = b.Put(t.Context(), who, "news", CreateRequest{})
	require.NoError(t, err)
	require.True(t, made, "the name is free, for all")
	_, err = a.Patch(t.Context(), who, "olds", PatchRequest{Name: ptr("news")})
	require.ErrorAs(t, err, new(*NameTakenError))
	fork, err := a.Fork(t.Context(), who, "olds", ForkRequest{Name: "fork"})
	require.NoError(t, err)
	page, next, err := b.List(who, "", 2)
	require.NoError(t, err)
	require.Len(t, page, 2)
	rest, _, err := b.List(who, next, 2)
	require.NoError(t, err)
	require.Equal(t, []string{fork.ID}, []string{rest[0].ID})
	require.Equal(t, int64(60), rest[0].Offset)
	found, _, err := b.List(who, "", 5, Label{Name: "y"})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "olds", found[0].Name)

	require.NoError(t, a.Delete(who, "olds"))
	_, err = b.Get(who, info.ID)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.Create(t.Context(), who, CreateRequest{ShadowOf: "fork"})
	require.ErrorContains(t, err, "have no shadows")
}

func TestLimitsAndExpiryHoldOnAllServersTogether(t *testing.T) {
	d := newDatabase(t)
	a, b := d.join(t, "a", nil), d.join(t, "b", nil)
	who := Caller{Key: "k", MaxSessions: 2}
	begun := time.Now()
	// This server's clock does not advance, unlike the database's clock.
	a.engine.clock.read = func() time.Time { return begun }
	first, err := a.Create(t.Context(), who, CreateRequest{TTL: time.Millisecond})
	require.NoError(t, err)
	_, err = b.Create(t.Context(), who, CreateRequest{})
	require.NoError(t, err)
	for _, s := range []*peer{a, b} {
		_, err = s.Create(t.Context(), who, CreateRequest{})
		require.ErrorAs(t, err, new(*QuotaError))
	}
	time.Sleep(2 * time.Millisecond)
	_, err = b.Get(who, first.ID)
	require.NoError(t, err, "its server says when")
	a.lose(t)
	_, err = b.Get(who, first.ID)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.Create(t.Context(), who, CreateRequest{})
	require.NoError(t, err, "the expired make room")
	b.tend(b.member.Term())
	a.regain(t)
	_, err = a.Get(who, first.ID)
	require.ErrorIs(t, err, ErrNotFound)

	mine, err := a.Create(t.Context(), Caller{}, CreateRequest{TTL: time.Minute})
	require.NoError(t, err)
	a.engine.clock.read = func() time.Time { return begun.Add(time.Hour) }
	_, err = a.Get(Caller{}, mine.ID)
	require.ErrorIs(t, err, ErrNotFound)
	a.tend(a.member.Term())
	_, err = d.admin.Get(t.Context(), mine.ID)
	require.ErrorIs(t, err, storage.ErrNotFound, "the server that has it deletes it")
}

func TestHalfMadeSessionOfLiveServerStays(t *testing.T) {
	d := newDatabase(t)
	a, b := d.join(t, "a", nil), d.join(t, "b", nil)
	half := head{Version: headVersion, ID: "half", Numerics: []numerics{{Name: "x"}}}
	_, err := a.store.Create(t.Context(), "half", half.encode(), 0)
	require.NoError(t, err)
	_, err = b.Get(Caller{}, "half")
	require.ErrorIs(t, err, ErrNotFound)
	b.tend(b.member.Term())
	_, err = d.admin.Get(t.Context(), "half")
	require.NoError(t, err)
	a.lose(t)
	b.tend(b.member.Term())
	_, err = d.admin.Get(t.Context(), "half")
	require.ErrorIs(t, err, storage.ErrNotFound)
}

type replays struct {
	unobserved
	mu           sync.Mutex
	bytes        int64
	taken, fence int
}

func (r *replays) Replayed(bytes int64) { r.note(func() { r.bytes += bytes }) }
func (r *replays) Fenced()              { r.note(func() { r.fence++ }) }
func (r *replays) Claimed(taken bool) {
	r.note(func() {
		if taken {
			r.taken++
		}
	})
}

func (r *replays) note(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func TestServerServesOnlyWithItsLease(t *testing.T) {
	d := newDatabase(t)
	var told replays
	a := d.join(t, "a", &told)
	text := logText(6 * testChunk)
	id := create(t, a.Manager, CreateRequest{})
	_, err := a.score(id, text[:2*testChunk], nil)
	require.NoError(t, err)
	watched := make(chan error, 1)
	began := make(chan struct{}, 1)
	go func() {
		watched <- a.Watch(context.Background(), Caller{}, id, WatchOptions{}, func(e Event) error {
			if e.Start != nil {
				began <- struct{}{}
			}
			return nil
		})
	}()
	<-began
	term := a.member.Term()
	a.lose(t)
	_, err = a.Get(Caller{}, id)
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = a.score(id, "x", nil)
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = a.Complete(t.Context(), Caller{}, id, CompleteRequest{MaxTokens: 1}, noPieces)
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = a.Create(t.Context(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrUnavailable)
	a.tend(term)
	require.ErrorIs(t, <-watched, ErrUnavailable)

	a.regain(t)
	lost, pieces := false, 0
	_, err = a.Complete(t.Context(), Caller{}, id, CompleteRequest{MaxTokens: 4000},
		func(Piece) error {
			if pieces++; !lost {
				a.lose(t)
				lost = true
			}
			return nil
		})
	require.ErrorIs(t, err, ErrUnavailable, "one that is under way")
	require.Less(t, pieces, 4000)

	a.regain(t)
	_, err = a.Get(Caller{}, id)
	require.NoError(t, err)
	require.True(t, a.Holds(id), "nobody has taken it")
	sum, err := a.score(id, text[2*testChunk:], ptr(int64(2*testChunk)))
	require.NoError(t, err)
	require.Equal(t, bitsAlone(t, CreateRequest{}, text), sum.Total.Bits)
	require.Zero(t, told.bytes, "its state has stayed in memory")
	require.Zero(t, told.taken)
}

func TestSessionOfLostServerContinuesToSameBits(t *testing.T) {
	d := newDatabase(t)
	var first, second replays
	a, b := d.join(t, "a", &first), d.join(t, "b", &second)
	text := logText(8*testChunk + 5)
	id := create(t, a.Manager, CreateRequest{})
	_, err := a.score(id, text[:3*testChunk+1], nil)
	require.NoError(t, err)
	a.lose(t)
	_, err = b.score(id, text[3*testChunk+1:5*testChunk], ptr(int64(3*testChunk+1)))
	require.NoError(t, err)
	require.Equal(t, 1, second.taken)

	// withStale makes a write that began before the lease ended, which the store refuses.
	withStale := func() error {
		s := a.index.known(id)
		require.NoError(t, s.lock(t.Context()))
		defer s.unlock()
		return s.appendLocked(t.Context(), 3*testChunk+1, storage.Record{Text: []byte("late")})
	}
	require.ErrorIs(t, withStale(), storage.ErrFenced)
	require.Equal(t, 1, first.fence)
	a.regain(t)
	_, err = a.score(id, "x", nil)
	require.ErrorIs(t, err, ErrElsewhere)
	seen, err := a.Get(Caller{}, id)
	require.NoError(t, err)
	require.Equal(t, int64(5*testChunk), seen.Offset, "it tells what there is, not what it "+
		"remembers")
	b.lose(t)
	sum, err := a.score(id, text[5*testChunk:], ptr(int64(5*testChunk)))
	require.NoError(t, err)
	require.Equal(t, bitsAlone(t, CreateRequest{}, text), sum.Total.Bits)
	require.Equal(t, 1, first.taken)
}

func TestServerHandsItsSessionsOver(t *testing.T) {
	d := newDatabase(t)
	a, b := d.join(t, "a", nil), d.join(t, "b", nil)
	text := logText(6 * testChunk)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = create(t, a.Manager, CreateRequest{})
		_, err := a.score(ids[i], text[:testChunk+i], nil)
		require.NoError(t, err)
	}
	body, feed := io.Pipe()
	fed, ended := make(chan int64, 8), make(chan error, 2)
	go func() {
		_, err := a.Score(context.Background(), Caller{}, ids[0], body, ScoreOptions{},
			func(c Chunk) error {
				fed <- c.end()
				return nil
			})
		ended <- err
	}()
	go func() {
		ended <- a.Watch(context.Background(), Caller{}, ids[1], WatchOptions{},
			func(Event) error { return nil })
	}()
	_, _ = feed.Write([]byte(text[testChunk : 2*testChunk]))
	at := <-fed
	a.HandOver(t.Context())
	go func() { _, _ = feed.Write([]byte("late")) }()
	first, second := <-ended, <-ended
	if errors.Is(first, ErrElsewhere) {
		first, second = second, first
	}
	require.ErrorIs(t, first, ErrDraining, "the watch")
	require.ErrorIs(t, second, ErrElsewhere)
	require.NoError(t, feed.Close())
	_, err := a.score(ids[2], "x", nil)
	require.ErrorIs(t, err, ErrElsewhere)
	_, err = a.Create(t.Context(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrElsewhere)
	seen, err := a.Get(Caller{}, ids[2])
	require.NoError(t, err, "it still tells of them")
	require.Equal(t, int64(testChunk+2), seen.Offset)
	for i, id := range ids {
		from := int64(testChunk + i)
		if i == 0 {
			from = at
		}
		sum, err := b.score(id, text[from:], &from)
		require.NoError(t, err)
		require.Equal(t, bitsAlone(t, CreateRequest{}, text), sum.Total.Bits)
	}
}

type claimStore struct {
	storage.Store
	before func()
}

func (s claimStore) Claim(ctx context.Context, id string) (storage.Session, error) {
	s.before()
	return s.Store.Claim(ctx, id)
}

func TestServerWatchesTheRegisteredSession(t *testing.T) {
	d := newDatabase(t)
	one, two := d.join(t, "one", nil), d.join(t, "two", nil)
	id := create(t, one.Manager, CreateRequest{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	one.index.catalog.handOver(ctx)
	cancel()
	host := two.index.host
	host.store = claimStore{two.store, two.index.catalog.(*sharedCatalog).forget}
	r := startWatch(t, two.Manager, Caller{}, id, WatchOptions{}, false)
	_, err := two.score(id, logText(testChunk), nil)
	require.NoError(t, err)
	require.NotEmpty(t, r.upTo(t, testChunk))
}

// A server makes a fork or an import, which nobody finds by its name before it is whole. A request
// for this name may be repeated later.
func TestPutOfNameThatAnotherServerUsesCanBeRepeated(t *testing.T) {
	d := newDatabase(t)
	one, two := d.join(t, "one", nil), d.join(t, "two", nil)
	h := testHead(t)
	h.ID, h.Owner, h.Name, h.Complete = newID, "", "news", false
	epoch, err := one.store.Create(t.Context(), h.ID, h.encode(), 0)
	require.NoError(t, err)
	_, _, err = two.Put(t.Context(), Caller{}, "news", CreateRequest{})
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, one.store.Delete(t.Context(), h.ID, epoch))
	_, made, err := two.Put(t.Context(), Caller{}, "news", CreateRequest{})
	require.NoError(t, err)
	require.True(t, made)
}

func TestServerListsByLabelInPages(t *testing.T) {
	d := newDatabase(t)
	one := d.join(t, "one", nil)
	for range 2 * lookedAtOnce {
		create(t, one.Manager, CreateRequest{})
	}
	last := create(t, one.Manager, CreateRequest{Labels: map[string]string{"kind": "news"}})
	lists := &countedLists{Shared: one.index.catalog.(*sharedCatalog).shared}
	one.index.catalog.(*sharedCatalog).shared = lists
	page, _, err := one.List(Caller{}, "", 1, Label{"kind", ptr("news")})
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, last, page[0].ID)
	require.Equal(t, 3, lists.n)
	for _, after := range []string{"\x00", "\xff"} {
		_, _, err := one.List(Caller{Admin: true}, after, 1)
		require.NoError(t, err, "%q", after)
	}
}

type countedLists struct {
	storage.Shared
	n int
}

func (c *countedLists) ListOf(
	ctx context.Context, owner string, all bool, after string, limit int,
) ([]storage.Session, error) {
	c.n++
	return c.Shared.ListOf(ctx, owner, all, after, limit)
}

// Writers feed sessions through any server, while servers lose and regain their leases. Afterwards
// each session has all confirmed text, once and in order. No two servers used the same epoch, and
// the bits equal those of a single server.
func TestHistoriesOfServersThatLoseTheirLeases(t *testing.T) {
	d := newDatabase(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var servers []*peer
	for _, name := range []string{"a", "b", "c"} {
		servers = append(servers, d.join(t, name, nil))
	}
	const writers, rounds, roundsMost = 4, 25, 2500
	var mu sync.Mutex
	epochs := map[string]map[uint64]string{}
	taken := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, of := range epochs {
			n += len(of)
		}
		return n
	}
	var all sync.WaitGroup
	texts := make([]string, writers)
	ids := make([]string, writers)
	for n := range writers {
		ids[n] = create(t, servers[0].Manager, CreateRequest{})
		epochs[ids[n]] = map[uint64]string{}
	}
	stop := make(chan struct{})
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		for {
			s := servers[random.IntN(len(servers))]
			s.lose(t)
			select {
			case <-stop:
				s.regain(t)
				return
			case <-time.After(time.Duration(random.IntN(60)) * time.Millisecond):
			}
			s.regain(t)
		}
	})
	for n := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n+1)))
			id, at := ids[n], int64(0)
			// The writers continue until some session has changed servers, which depends on chance.
			for round := 0; round < rounds || taken() <= writers && round < roundsMost; {
				s := servers[random.IntN(len(servers))]
				piece := logText(200)[random.IntN(50):][:1+random.IntN(2*testChunk)]
				_, end, err := s.feed(id, piece, &at)
				switch {
				case err == nil:
					round++
					mu.Lock()
					if live := s.index.known(id); live != nil && s.Holds(id) {
						epoch := live.epoch()
						if other, taken := epochs[id][epoch]; taken && other != s.name {
							t.Errorf("session %s: epoch %d is of %s and of %s", id, epoch, other,
								s.name)
						}
						epochs[id][epoch] = s.name
					}
					mu.Unlock()
				case errors.Is(err, ErrUnavailable), errors.Is(err, ErrElsewhere):
				default:
					t.Errorf("session %s at %d: %v", id, at, err)
					return
				}
				texts[n] += piece[:end-at]
				at = end
			}
		})
	}
	all.Wait()
	close(stop)
	disturbing.Wait()
	for n, id := range ids {
		require.Equal(t, texts[n], logged(t, servers[0].Manager, id))
		var sum Summary
		require.True(t, slices.ContainsFunc(servers, func(s *peer) (ok bool) {
			var err error
			sum, err = s.score(id, "the end", nil)
			return err == nil
		}), "one server has it")
		require.Equal(t, bitsAlone(t, CreateRequest{}, texts[n]+"the end"), sum.Total.Bits, id)
	}
	require.Greater(t, taken(), writers, fmt.Sprint("sessions have changed servers: ", epochs))
}
