package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

const (
	// aloneLock and sweepLock are the keys of two advisory locks of PostgreSQL. Such a lock belongs
	// to one database, so stores in other databases can use the same keys.
	aloneLock = 0x6c6d736572766501
	sweepLock = 0x6c6d736572766502

	// aloneLook is the time between two checks of the connection that has the lock. aloneTry is
	// the time between two attempts of a waiting store to take the lock.
	aloneLook = 2 * time.Second
	aloneTry  = 100 * time.Millisecond
)

// The SQL statement alone tries to take an exclusive advisory lock, and the statement beside a
// shared advisory lock.
const (
	alone  = "select pg_try_advisory_lock($1)"
	beside = "select pg_try_advisory_lock_shared($1)"
)

// keepLock takes the advisory lock of the database, and keeps it until the background work ends.
// Parameter how is the statement alone or beside. A separate connection holds the lock. If that
// connection breaks, keepLock takes the lock again, and reports if another program has taken the
// lock meanwhile. Correctness does not depend on the lock: epochs fence writes.
func (s *Store) keepLock(
	ctx, background context.Context, config *pgx.ConnConfig, how string, wait time.Duration,
) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return unavailable(err)
	}
	deadline := time.Now().Add(wait)
	for {
		taken, err := takeLock(ctx, conn, how)
		if err == nil && taken {
			break
		}
		if err == nil && (time.Now().After(deadline) || !sleep(ctx, aloneTry)) {
			err = fmt.Errorf("postgres: database %s: %w: another server or command uses it; stop "+
				"that program first",
				config.Database, storage.ErrInUse)
		}
		if err != nil {
			return errors.Join(err, conn.Close(background))
		}
	}
	s.running.Go(func() { s.stayLocked(background, config, how, conn) })
	return nil
}

func takeLock(ctx context.Context, conn *pgx.Conn, how string) (taken bool, err error) {
	err = conn.QueryRow(ctx, how, int64(aloneLock)).Scan(&taken)
	if err != nil {
		return false, unavailable(err)
	}
	return taken, nil
}

// retakeLock takes the lock on a new connection. If that fails, conn is nil, and result others says
// whether another program has the lock.
func retakeLock(
	ctx context.Context, config *pgx.ConnConfig, how string,
) (conn *pgx.Conn, others bool) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, false
	}
	taken, err := takeLock(ctx, conn, how)
	if err == nil && taken {
		return conn, false
	}
	_ = conn.Close(ctx)
	return nil, err == nil
}

// look reports whether the connection that holds the lock is broken. For a store without a node,
// look also checks the settings of the database. A store with a node checks the settings in Renew.
func (s *Store) look(ctx context.Context, holder *pgx.Conn) (broken bool) {
	if s.node == "" {
		return s.watchPromises(ctx, holder)
	}
	return holder.Ping(ctx) != nil
}

func (s *Store) stayLocked(
	ctx context.Context, config *pgx.ConnConfig, how string, holder *pgx.Conn,
) {
	told := false
	for sleep(ctx, aloneLook) {
		look, cancel := context.WithTimeout(ctx, aloneLook)
		switch {
		case holder != nil:
			if s.look(look, holder) && ctx.Err() == nil {
				_ = holder.Close(look)
				holder = nil
			}
		default:
			var others bool
			if holder, others = retakeLock(look, config, how); others && !told {
				s.report(fmt.Errorf(
					"postgres: the connection that holds the lock of database %s broke, and "+
						"another program took the lock before it was taken again", config.Database))
				told = true
			}
		}
		cancel()
	}
	if holder != nil {
		end, cancel := context.WithTimeout(context.Background(), aloneLook)
		defer cancel()
		_ = holder.Close(end)
	}
}
