package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/cluster"
)

// nodeAge is how long a node stays in the database after its lease has lapsed.
const nodeAge = 10 * time.Minute

// lives is the SQL condition that the lease of node n has not lapsed. It does not use now(), which
// is the time at which the transaction began, before any wait for a lock.
const lives = `(n.until > clock_timestamp())`

// Renew implements cluster.Directory. It has separate connections, so that a lease does not lapse
// while appends use all other connections. It renews the lease even if the settings of the database
// do not make writes durable: then the server refuses writes, but still serves reads.
func (s *Store) Renew(
	ctx context.Context, self cluster.Node, lease time.Duration,
) (lapsed bool, alive []cluster.Node, err error) {
	held, err := s.beats.Acquire(ctx)
	if err != nil {
		return false, nil, unavailable(err)
	}
	defer held.Release()
	err = held.QueryRow(ctx, `
		insert into nodes as n (id, name, addr, numerics, models, draining, lease, until)
		values ($1, $2, $3, $4, $5, $6, $7,
			clock_timestamp() + $7::bigint * interval '1 microsecond')
		on conflict (id) do update
			set draining = excluded.draining, lease = excluded.lease, until = excluded.until
		returning coalesce(
			(select old.until <= clock_timestamp() from nodes old where old.id = $1), true)`,
		self.ID, self.Name, self.Addr, self.Numerics,
		append([]string{}, self.Models...), self.Draining, lease.Microseconds()).
		Scan(&lapsed)
	if err != nil {
		return false, nil, unavailable(err)
	}
	if s.watchPromises(ctx, held.Conn()) {
		return false, nil, unavailable(errors.New("the database connection for lease renewals is " +
			"broken"))
	}
	asked := s.sightings.clock()
	rows, err := held.Query(ctx, `
		select id, name, addr, numerics, models, draining, lease, until, not `+lives+` from nodes n
		order by name, id`)
	if err != nil {
		return false, nil, unavailable(err)
	}
	known := map[string]bool{}
	var n cluster.Node
	var micros int64
	var until time.Time
	var ended bool
	_, err = pgx.ForEachRow(rows, []any{
		&n.ID, &n.Name, &n.Addr, &n.Numerics, &n.Models, &n.Draining, &micros, &until, &ended,
	}, func() error {
		known[n.ID] = true
		over := s.sightings.over(n.ID, until, time.Duration(micros)*time.Microsecond, asked)
		// The nodes of killed servers do not count as alive, even if their leases still prevent
		// claims of their sessions.
		left := ended && !s.sightings.renews(n.ID) || n.Addr == self.Addr && n.Addr != ""
		if n.ID == self.ID || !over && !left {
			alive = append(alive, n)
		}
		n.Models = nil // the next row needs a new slice
		return nil
	})
	if err != nil {
		return false, nil, unavailable(err)
	}
	s.sightings.forget(func(id string) bool { return known[id] })
	return lapsed, alive, nil
}

// Leave implements cluster.Directory.
func (s *Store) Leave(ctx context.Context, id string) error {
	return s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update sessions set node = null where node = $1`, id)
		if err == nil {
			_, err = tx.Exec(ctx, `delete from nodes where id = $1`, id)
		}
		return err
	})
}

// forgetNodes removes the rows of other servers whose leases were not renewed while this server
// watched them for the duration age. A store without a node uses the clock of the database instead.
func (s *Store) forgetNodes(ctx context.Context, age time.Duration) error {
	ids, untils := s.sightings.unrenewed(age)
	err := s.once(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		_, err := q.Exec(ctx, `
			delete from nodes n where n.id <> $3 and (
				(n.id, n.until) in (select * from unnest($1::text[], $2::timestamptz[]))
				or $3 = ''
					and n.until < clock_timestamp() - $4::bigint * interval '1 microsecond')`,
			ids, untils, s.node, age.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: removing the rows of servers that have stopped: %w", err)
	}
	return nil
}

var _ cluster.Directory = (*Store)(nil)
