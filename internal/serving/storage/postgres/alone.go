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
	// aloneLock and sweepLock are the numbers of the advisory locks: those of the database's tables
	// of lmserve, so that databases of others are not disturbed.
	aloneLock = 0x6c6d736572766501
	sweepLock = 0x6c6d736572766502

	// aloneLook is how often a store looks whether the connection that has the lock is still there,
	// and aloneTry how often a store that waits tries to get the lock.
	aloneLook = 2 * time.Second
	aloneTry  = 100 * time.Millisecond
)

// How stores take the lock: alone, or beside others who take it so.
const (
	alone  = "select pg_try_advisory_lock($1)"
	beside = "select pg_try_advisory_lock_shared($1)"
)

// keepLock takes the lock of a store that is opened alone, or beside those of other servers that
// share the database, and keeps it until the background ends.
// The lock belongs to a connection of its own. If that breaks, the lock is taken anew; if another
// store has been quicker, it is reported. Nothing relies on the lock: epochs fence.
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
			err = fmt.Errorf("postgres: database %s: %w: a server or a command has it open",
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

// retakeLock takes the lock on a new connection; the connection is nil if that did not work. It
// says whether another store has the lock.
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

// look looks at the connection that has the lock. A store without a node has no renewals, which
// look at the settings of the database.
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
					"postgres: another server has opened database %s alone: it was "+
						"expected to wait", config.Database))
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
