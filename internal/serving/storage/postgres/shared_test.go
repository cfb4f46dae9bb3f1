package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/cluster"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

func termsOf(head []byte) (t storage.Terms) {
	if err := json.Unmarshal(head, &t); err != nil {
		panic(err)
	}
	return t
}

func headOf(t storage.Terms) []byte {
	head, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return head
}

func (p *place) node(t *testing.T, name string) *postgres.Store {
	o := p.options()
	o.Node, o.Terms = name, termsOf
	return p.started(t, o)
}

func renew(t *testing.T, s *postgres.Store, name string, lease time.Duration) (lapsed bool,
	alive []string) {
	lapsed, nodes, err := s.Renew(t.Context(), cluster.Node{ID: name, Name: name,
		Models: []string{"m"}}, lease)
	require.NoError(t, err)
	for _, n := range nodes {
		alive = append(alive, n.ID)
	}
	return lapsed, alive
}

// end removes a server from the database, which ends the server's lease.
func end(t *testing.T, s *postgres.Store, name string) {
	require.NoError(t, s.Exec(t.Context(), `delete from nodes where id = '`+name+`'`))
}

func TestLeaseLastsByClockOfDatabase(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	a, b := p.node(t, "a"), p.node(t, "b")
	lapsed, alive := renew(t, a, "a", time.Hour)
	require.True(t, lapsed, "there was none before")
	require.Equal(t, []string{"a"}, alive)
	lapsed, _ = renew(t, a, "a", time.Hour)
	require.False(t, lapsed)
	_, alive = renew(t, b, "b", time.Hour)
	require.Equal(t, []string{"a", "b"}, alive)
	end(t, a, "a")
	_, alive = renew(t, b, "b", time.Hour)
	require.Equal(t, []string{"b"}, alive)
	lapsed, alive = renew(t, a, "a", time.Hour)
	require.True(t, lapsed, "it was over")
	require.Equal(t, []string{"a", "b"}, alive)
	require.NoError(t, b.Leave(t.Context(), "b"))
	_, alive = renew(t, a, "a", time.Hour)
	require.Equal(t, []string{"a"}, alive)
}

func TestOnlyGoneServersSessionIsClaimed(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	a, b := p.node(t, "a"), p.node(t, "b")
	renew(t, a, "a", time.Hour)
	renew(t, b, "b", time.Hour)
	first, err := a.Create(t.Context(), "s", headOf(storage.Terms{Complete: true}), 0)
	require.NoError(t, err)
	owner := func() string {
		at, err := b.Locate(t.Context(), "", "s")
		require.NoError(t, err)
		return at.Node
	}
	require.Equal(t, "a", owner())
	_, err = b.Claim(t.Context(), "s")
	var owned *storage.OwnedError
	require.ErrorAs(t, err, &owned)
	require.Equal(t, storage.OwnedError{Session: "s", Node: "a"}, *owned)
	require.NoError(t, a.Append(t.Context(), "s", first, 0, record("one")),
		"what was refused has changed nothing")
	again, err := a.Claim(t.Context(), "s")
	require.NoError(t, err)
	require.Greater(t, again.Epoch, first)
	require.False(t, again.Taken)

	end(t, a, "a")
	require.Empty(t, owner())
	_, err = a.Claim(t.Context(), "s")
	require.ErrorIs(t, err, storage.ErrUnavailable, "a server whose lease is over claims nothing")
	taken, err := b.Claim(t.Context(), "s")
	require.NoError(t, err)
	require.True(t, taken.Taken)
	require.Equal(t, int64(3), taken.End)
	require.ErrorIs(t, a.Append(t.Context(), "s", again.Epoch, 3, record("late")),
		storage.ErrFenced)
	renew(t, a, "a", time.Hour)
	_, err = a.Claim(t.Context(), "s")
	require.ErrorIs(t, err, storage.ErrOwned)

	require.NoError(t, b.Release(t.Context(), "s", taken.Epoch-1, 0))
	require.Equal(t, "b", owner(), "under another epoch nothing is released")
	require.NoError(t, b.Release(t.Context(), "s", taken.Epoch, 0))
	require.Empty(t, owner())
	free, err := a.Claim(t.Context(), "s")
	require.NoError(t, err)
	require.False(t, free.Taken, "it was free")
	require.NoError(t, a.Leave(t.Context(), "a"))
	require.Empty(t, owner(), "who leaves has nothing any more")
	_, err = a.Claim(t.Context(), "absent")
	require.ErrorIs(t, err, storage.ErrNotFound)
}

// The clock of the database is set ahead while a server runs, so the server's lease looks lapsed
// until its next renewal. A new server that has not seen the lease before must not claim the first
// server's sessions, because the first server still serves them.
func TestNewServerDoesNotTrustTheClock(t *testing.T) {
	database, clocked := pgtest.NewClocked(t)
	if !clocked {
		t.Skip("libfaketime is not installed")
	}
	p := newPlace(t, database, folder(t))
	const lease = 2 * time.Second
	a := p.node(t, "a")
	renew(t, a, "a", lease)
	_, err := a.Create(t.Context(), "s", headOf(storage.Terms{Complete: true}), 0)
	require.NoError(t, err)
	require.NoError(t, database.SetClock(24*time.Hour))
	b := p.node(t, "b")
	renew(t, b, "b", time.Hour)
	_, err = b.Claim(t.Context(), "s")
	require.ErrorIs(t, err, storage.ErrOwned)
	require.NoError(t, b.ForgetNodes(t.Context(), lease))
	_, err = b.Claim(t.Context(), "s")
	require.ErrorIs(t, err, storage.ErrOwned, "a was not forgotten")
	require.Eventually(t, func() bool {
		_, err = b.Claim(t.Context(), "s")
		return err == nil
	}, 10*lease, lease/20, "the lease was not renewed")
	require.NoError(t, b.ForgetNodes(t.Context(), lease))
	left, err := b.Nodes(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, left, "a is forgotten")
}

func TestOfManyServersOneTakesASessionOver(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	dead := p.node(t, "dead")
	renew(t, dead, "dead", time.Hour)
	const sessions, servers = 20, 4
	for n := range sessions {
		_, err := dead.Create(t.Context(), fmt.Sprint("s", n),
			headOf(storage.Terms{Complete: true}), 0)
		require.NoError(t, err)
	}
	end(t, dead, "dead")
	var mu sync.Mutex
	var all sync.WaitGroup
	winners := map[string]int{}
	for n := range servers {
		s := p.node(t, fmt.Sprint("n", n))
		renew(t, s, fmt.Sprint("n", n), time.Hour)
		all.Go(func() {
			for id := range sessions {
				_, err := s.Claim(context.Background(), fmt.Sprint("s", id))
				if err == nil {
					mu.Lock()
					winners[fmt.Sprint("s", id)]++
					mu.Unlock()
				} else if !sessionIsAnothers(err) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, winners, sessions)
	for id, n := range winners {
		require.Equal(t, 1, n, id)
	}
}

func sessionIsAnothers(err error) bool {
	_, is := err.(*storage.OwnedError)
	return is
}

func TestNamesAndQuotasAreTheDatabasesToKeep(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	a, b := p.node(t, "a"), p.node(t, "b")
	renew(t, a, "a", time.Hour)
	renew(t, b, "b", time.Hour)
	named := func(owner, name string) []byte {
		return headOf(storage.Terms{Complete: true, Owner: owner, Name: name})
	}
	epoch, err := a.Create(t.Context(), "1", named("x", "news"), 0)
	require.NoError(t, err)
	_, err = b.Create(t.Context(), "2", named("x", "news"), 0)
	require.ErrorIs(t, err, storage.ErrTaken)
	_, err = b.Create(t.Context(), "1", named("x", ""), 0)
	require.ErrorIs(t, err, storage.ErrExists)
	other, err := b.Create(t.Context(), "2", named("y", "news"), 0)
	require.NoError(t, err, "another owner's names are others")
	at, err := b.Locate(t.Context(), "x", "news")
	require.NoError(t, err)
	require.Equal(t, "1", at.ID)
	at, err = b.Locate(t.Context(), "x", "2")
	require.NoError(t, err, "whose it is, is for the caller to look at")
	require.Equal(t, "y", at.Owner)
	require.NoError(t, a.SetHead(t.Context(), "1", epoch, named("x", "old")))
	_, err = b.Locate(t.Context(), "x", "news")
	require.ErrorIs(t, err, storage.ErrNotFound)
	third, err := b.Create(t.Context(), "3", named("x", "news"), 0)
	require.NoError(t, err)
	require.ErrorIs(t, b.SetHead(t.Context(), "3", third, named("x", "old")), storage.ErrTaken)
	require.NoError(t, b.SetHead(t.Context(), "2", other, named("y", "old")))

	_, err = b.Within(2).Create(t.Context(), "4", named("x", ""), 0)
	require.ErrorIs(t, err, storage.ErrQuota)
	_, err = b.Within(2).Fork(t.Context(), "1", "4", named("x", ""), storage.Cut{})
	require.ErrorIs(t, err, storage.ErrQuota)
	_, err = b.Within(3).Fork(t.Context(), "1", "4", named("x", ""), storage.Cut{})
	require.NoError(t, err)
	for all, want := range map[bool][]string{false: {"1", "3", "4"}, true: {"1", "2", "3", "4"}} {
		page, err := a.ListOf(t.Context(), "x", all, "", 10)
		require.NoError(t, err)
		var ids []string
		for _, s := range page {
			ids = append(ids, s.ID)
		}
		require.Equal(t, want, ids)
	}
	page, err := a.ListOf(t.Context(), "x", false, "1", 1)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, "3", page[0].ID)
}

func TestOwnersKeepQuotaOnSeveralServers(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	const most, each = 5, 6
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		s := p.node(t, name)
		renew(t, s, name, time.Hour)
		all.Go(func() {
			for n := range each {
				_, _ = s.Within(most).Create(context.Background(), fmt.Sprint(name, n),
					headOf(storage.Terms{Complete: true, Owner: "x"}), 0)
			}
		})
	}
	all.Wait()
	page, err := p.node(t, "d").ListOf(t.Context(), "x", false, "", 100)
	require.NoError(t, err)
	require.Len(t, page, most)
}

// A server's lease has ended, and the server has left expired and incomplete sessions. Other
// servers must remove these sessions.
func TestStaleSessionsOfGoneServerAreRemoved(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), bucket(t))
	a, b := p.node(t, "a"), p.node(t, "b")
	renew(t, a, "a", time.Hour)
	renew(t, b, "b", time.Hour)
	for id, terms := range map[string]storage.Terms{
		"stays": {Complete: true}, "young": {Complete: true, TTL: time.Hour},
		"old": {Complete: true, TTL: time.Microsecond}, "half": {},
	} {
		_, err := a.Create(t.Context(), id, headOf(terms), 0)
		require.NoError(t, err)
	}
	found := func(id string) bool {
		_, err := b.Locate(t.Context(), "", id)
		return err == nil
	}
	n, err := b.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n, "their server says when")
	require.True(t, found("old"))
	require.False(t, found("half"))
	end(t, a, "a")
	require.False(t, found("old"), "nobody sees it before it goes")
	n, err = b.Expire(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = b.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	all, err := b.List(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, found("stays"))
	require.True(t, found("young"))
}

func TestSharedServerWaitsForLoneServer(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	lonely := p.options()
	lonely.Alone = true
	shared := p.options()
	shared.Node = "a"
	one, err := postgres.Open(t.Context(), lonely)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), shared)
	require.ErrorIs(t, err, storage.ErrInUse)
	require.NoError(t, one.Close())
	p.node(t, "a")
	p.node(t, "b")
	_, err = postgres.Open(t.Context(), lonely)
	require.ErrorIs(t, err, storage.ErrInUse)
}

// Tables of the first version have no columns for the terms of sessions, such as the owner and the
// name. The migration must fill the new columns from the sessions' heads.
func TestTablesOfFirstVersionAreMigrated(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	conn, err := pgx.Connect(t.Context(), p.server.URL(p.database))
	require.NoError(t, err)
	for _, sql := range []string{
		`drop table nodes, keys, object_store`,
		`alter table records drop column continued`,
		`alter table sessions drop column node, drop column owner, drop column name,
			drop column complete, drop column ttl, drop column model, drop column numerics,
			drop column used`,
		`update lmserve_schema set version = 1`,
		`insert into sessions (id, epoch, head, start, "end")
			select id, nextval('epochs'), convert_to(head, 'UTF8'), 0, 0 from (values
			('a', '{"owner":"x","complete":true,"ttl_ns":5000,"model":{"name":"m","hash":"abc"},` +
			`"numerics":[{"from":0,"name":"one"},{"from":3,"name":"two"}],"name":"news",` +
			`"labels":{"odd":"\u0000"}}'),
			('b', '{"owner":"x","complete":false,"ttl_ns":0,"model":{"name":"m","hash":"abc"},` +
			`"numerics":null,"name":"news"}'))
			as old(id, head)`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	_, err = conn.Exec(t.Context(), `select pg_advisory_lock_shared(`+
		fmt.Sprint(postgres.AloneLock)+`)`)
	require.NoError(t, err)
	_, _, err = postgres.Migrate(t.Context(), p.server.URL(p.database))
	require.ErrorIs(t, err, storage.ErrInUse, "a server has it open")
	_, err = conn.Exec(t.Context(), `select pg_advisory_unlock_all()`)
	require.NoError(t, err)
	before, now, err := postgres.Migrate(t.Context(), p.server.URL(p.database))
	require.NoError(t, err)
	require.EqualValues(t, 1, before)
	require.Greater(t, now, before)
	var found string
	require.NoError(t, conn.QueryRow(t.Context(), `
		select string_agg(concat_ws(' ', id, owner, name, complete, ttl, model, numerics), ', '
			order by id)
		from sessions`).Scan(&found))
	require.Equal(t, "a x news t 5 abc two, b x  f 0 abc ", found)
	require.NoError(t, conn.Close(t.Context()))
}

// A path or a field `user` of a request may have bytes that no text of PostgreSQL has.
func TestNameThatIsNoTextIsNotFound(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	for _, text := range []string{"a\x00b", "\xff", ""} {
		_, err := s.Locate(t.Context(), "alice", text)
		require.ErrorIs(t, err, storage.ErrNotFound, "%q", text)
	}
}

// The database may refuse to delete a session, for example because its rows are damaged.
func TestUndeletableSessionStopsNoExpiry(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Terms = termsOf
	s := p.started(t, o)
	for _, id := range []string{"a", "b"} {
		_, err := s.Create(t.Context(), id, headOf(storage.Terms{
			Complete: true, TTL: time.Millisecond,
		}), 0)
		require.NoError(t, err)
	}
	require.NoError(t, s.Exec(t.Context(), `
		create function refuse() returns trigger language plpgsql as
			'begin if old.id = ''a'' then raise ''damaged''; end if; return old; end';
		create trigger refuse before delete on sessions for each row execute function refuse()`))
	time.Sleep(10 * time.Millisecond)
	deleted, err := s.Expire(t.Context(), 10)
	require.ErrorContains(t, err, "damaged")
	require.Equal(t, 1, deleted)
	_, err = s.Get(t.Context(), "b")
	require.ErrorIs(t, err, storage.ErrNotFound)
}
