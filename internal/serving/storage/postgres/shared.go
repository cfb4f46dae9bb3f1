package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// ownersLock is the first key of the advisory locks for the limit on an owner's sessions. The
// second key is a hash of the owner.
const ownersLock = 0x6c6d

// These are SQL conditions on a session s and its server's row n in the table nodes. The condition
// free says that no server has the session. The condition unused says that the session has expired.
// The condition visible says that callers may see the session. The clause withNode joins n to s.
const (
	free     = `(n.id is null or not ` + lives + `)`
	unused   = `(s.ttl > 0 and s.used + s.ttl * interval '1 microsecond' <= clock_timestamp())`
	visible  = `(s.complete and not (` + unused + ` and ` + free + `))`
	withNode = ` left join nodes n on n.id = s.node `
)

func (s *Store) termsOf(head []byte) storage.Terms {
	if s.terms == nil {
		return storage.Terms{Complete: true}
	}
	return s.terms(head)
}

// self returns the id of this node for a column of the database; nil means no node.
func (s *Store) self() *string {
	if s.node == "" {
		return nil
	}
	return &s.node
}

// Locate implements storage.Shared.
func (s *Store) Locate(
	ctx context.Context, owner, text string,
) (at storage.Place, err error) {
	if place(text) != text { // PostgreSQL refuses such texts
		return at, storage.NotFound(text)
	}
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		err := q.QueryRow(ctx, `
			select s.id, s.owner, case when `+free+` then '' else s.node end, s.model, s.numerics
			from sessions s`+withNode+`
			where (s.id = $1 or s.owner = $2 and s.name = $1 and s.name <> '') and `+visible+`
			order by s.id = $1 desc limit 1`, text, owner).
			Scan(&at.ID, &at.Owner, &at.Node, &at.Model, &at.Numerics)
		if errors.Is(err, pgx.ErrNoRows) {
			return storage.NotFound(text)
		}
		return err
	})
	return at, err
}

// place returns a text that PostgreSQL accepts, with the same place among the ids of sessions.
func place(after string) string {
	after, _, _ = strings.Cut(strings.ToValidUTF8(after, "\U0010FFFF"), "\x00")
	return after
}

// ListOf implements storage.Shared.
func (s *Store) ListOf(
	ctx context.Context, owner string, all bool, after string, limit int,
) (found []storage.Session, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		rows, _ := q.Query(ctx, described+withNode+`
			where ($1 or s.owner = $2) and s.id > $3 and `+visible+` order by s.id limit $4`,
			all, owner, place(after), limit)
		found, err = pgx.CollectRows(rows, scanSession)
		return err
	})
	return found, err
}

// mayClaim locks a session's row, and returns the id of the server that had the session, or "" if
// there is none. If that server's lease has not lapsed, the error is an OwnedError. A separate
// statement reads the lease after the row is locked, so that it sees the latest state. A store that
// is open alone trusts the clock of the database, because no server runs beside it.
func (s *Store) mayClaim(ctx context.Context, tx pgx.Tx, id string) (before string, err error) {
	err = tx.QueryRow(ctx, `
		select coalesce(node, '') from sessions where id = $1 for no key update`, id).
		Scan(&before)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", storage.NotFound(id)
	}
	if err != nil || before == "" || before == s.node {
		return before, err
	}
	var micros int64
	var until time.Time
	var ended bool
	asked := s.sightings.clock()
	err = tx.QueryRow(ctx, `select lease, until, not `+lives+` from nodes n where id = $1`, before).
		Scan(&micros, &until, &ended)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return before, nil
	case err != nil:
		return "", err
	}
	lapsed := ended
	if s.node != "" {
		lapsed = s.sightings.over(before, until, time.Duration(micros)*time.Microsecond, asked)
	}
	if !lapsed {
		return "", &storage.OwnedError{Session: id, Node: before}
	}
	return before, nil
}

// Release implements storage.Shared.
func (s *Store) Release(
	ctx context.Context, id string, epoch uint64, unusedFor time.Duration,
) error {
	conn, err := s.writing(ctx)
	if err != nil {
		return err
	}
	defer s.release(conn)
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	_, err = conn.Exec(ctx, `
		update sessions set node = null,
			used = greatest(used, clock_timestamp() - $3::bigint * interval '1 microsecond')
		where id = $1 and epoch = $2`, id, epoch, max(0, unusedFor.Microseconds()))
	return outcome(conn, err)
}

// Expire implements storage.Shared.
func (s *Store) Expire(ctx context.Context, limit int) (deleted int, err error) {
	const doomed = `(s.ttl > 0 or not s.complete) and ` + free + ` and (` + unused +
		` or not s.complete)`
	var ids []string
	var failed error
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		rows, err := q.Query(ctx, `select s.id from sessions s`+withNode+`where `+doomed+
			` limit $1`, limit)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		err := s.erase(ctx, id, func(ctx context.Context, tx pgx.Tx, _ extent) error {
			// whether the session must still be deleted, now that its row is locked
			var still bool
			err := tx.QueryRow(ctx, `select `+doomed+` from sessions s`+withNode+`where s.id = $1`,
				id).
				Scan(&still)
			if err == nil && !still {
				err = storage.NotFound(id)
			}
			if err == nil {
				_, err = s.mayClaim(ctx, tx, id)
			}
			return err
		})
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrOwned):
		case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrClosed):
			return deleted, errors.Join(failed, err)
		default: // the other sessions must not wait for this session
			failed = errors.Join(failed, err)
		}
	}
	return deleted, failed
}

// Within implements storage.Shared.
func (s *Store) Within(most int) storage.Store { return &within{s, most} }

// within is a store that limits the number of sessions of each owner to the value of most.
type within struct {
	*Store
	most int
}

// Create implements storage.Store.
func (w *within) Create(
	ctx context.Context, id string, head []byte, start int64,
) (epoch uint64, err error) {
	return w.create(ctx, id, head, start, w.most)
}

// Fork implements storage.Store.
func (w *within) Fork(
	ctx context.Context, from, id string, head []byte, c storage.Cut,
) (epoch uint64, err error) {
	return w.fork(ctx, from, id, head, c, w.most)
}

// admitOne checks that an owner may have another session. A lock keeps the answer true until the
// transaction ends.
func admitOne(ctx context.Context, tx pgx.Tx, owner string, most int) error {
	if most == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1, hashtext($2))`, ownersLock, owner)
	if err != nil {
		return err
	}
	var has int
	err = tx.QueryRow(ctx, `
		select count(*) from sessions s`+withNode+`
		where s.owner = $1 and not (`+unused+` and `+free+`)`, owner).Scan(&has)
	if err == nil && has >= most {
		err = fmt.Errorf("postgres: %w: %d", storage.ErrQuota, has)
	}
	return err
}

var _ storage.Shared = (*Store)(nil)
