package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sweepAge is how long an object without a snapshot stays, by the clock of the database. It is
	// longer than putTime, the longest time for writing the object.
	sweepAge = time.Hour
	// sweepPause is the time between two sweeps. sweepBatch is the largest number of objects that
	// one transaction of a sweep marks for removal.
	sweepPause = 10 * time.Minute
	sweepBatch = 100
)

// sweepAgainAndAgain removes the objects of incomplete snapshots and the rows of stopped servers,
// with pauses, until the context ends.
func (s *Store) sweepAgainAndAgain(ctx context.Context) {
	for sleep(ctx, sweepPause) {
		if err := s.sweep(ctx, sweepAge); err != nil && ctx.Err() == nil {
			s.report(fmt.Errorf("postgres: removing what is left of incomplete snapshots: %w", err))
		}
		if err := s.forgetNodes(ctx, nodeAge); err != nil && ctx.Err() == nil {
			s.report(err)
		}
	}
}

// sweep removes the objects that have belonged to no snapshot for the duration age. It continues
// after an object that it cannot remove, and stops only if it cannot remove any object of a batch.
// The error names the objects that stay. The next sweep tries them again, after the other objects.
func (s *Store) sweep(ctx context.Context, age time.Duration) (failed error) {
	for {
		removed := 0
		names, err := s.condemn(ctx, age)
		if err == nil {
			removed, err = s.remove(ctx, names)
		}
		failed = errors.Join(failed, err)
		if removed == 0 || len(names) < sweepBatch {
			return failed
		}
	}
}

// condemn marks up to sweepBatch objects that have belonged to no snapshot for the duration age,
// and returns their names. Objects that were marked before, because they could not be removed, come
// last. A marked object cannot become a snapshot any more, even if a slow writer still finishes it.
// While another store marks objects, condemn returns no names.
func (s *Store) condemn(ctx context.Context, age time.Duration) (names []string, err error) {
	err = s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		var first bool
		err := tx.QueryRow(ctx, `select pg_try_advisory_xact_lock($1)`,
			int64(sweepLock)).Scan(&first)
		if err != nil || !first {
			return err
		}
		rows, _ := tx.Query(ctx, `
			with old as (
				select object from objects
				where refs <= 0 and since <= now() - $1::bigint * interval '1 microsecond'
				order by refs desc, since limit $2 for update skip locked
			)
			update objects o set refs = -1 from old where o.object = old.object returning o.object`,
			age.Microseconds(), sweepBatch)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}
