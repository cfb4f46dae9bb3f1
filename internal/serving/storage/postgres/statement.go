package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// The functions of this file run SQL statements, and convert errors. A converted error says whether
// nothing was written or the outcome is unknown.

const (
	// statementTime is the longest time for a write after it has begun. If a write takes longer,
	// its connection is closed, and the outcome is unknown.
	statementTime = 30 * time.Second
	// copyTime is the longest time for a fork or a deletion. Both touch all records of a session,
	// so they may take longer.
	copyTime = 10 * time.Minute
	// readTime is the longest time for a read of at most one page (pageBytes).
	readTime = time.Minute
	// readTries is the largest number of tries for a read whose connections break. It is larger
	// than the number of connections in the pool, because a restart of the database breaks all of
	// them.
	readTries = connectionsMax + 2
)

// connection takes a connection from the pool. It sends nothing to the database.
func (s *Store) connection(ctx context.Context) (*pgxpool.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, storage.ErrClosed
	}
	conn, err := s.pool.Acquire(ctx)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.closed.Load():
		return nil, storage.ErrClosed
	}
	return nil, unavailable(err)
}

// release returns a connection to the pool, and reports whether the connection is broken. If so,
// release also closes the idle connections, which are usually broken, too.
func (s *Store) release(conn *pgxpool.Conn) (broken bool) {
	broken = conn.Conn().IsClosed()
	conn.Release()
	if broken {
		s.pool.Reset()
	}
	return broken
}

func unavailable(err error) error {
	return fmt.Errorf("postgres: %w: %w", storage.ErrUnavailable, err)
}

// unknown returns an ErrUnknown with the text of err. It does not wrap err: a wrapped
// ErrUnavailable would say that nothing was written.
func unknown(err error) error { return fmt.Errorf("postgres: %w: %v", storage.ErrUnknown, err) }

// read runs statements that write nothing, and runs them again if their connection breaks.
func (s *Store) read(
	ctx context.Context, do func(ctx context.Context, q *pgxpool.Conn) error,
) (err error) {
	reading, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	for range readTries {
		var conn *pgxpool.Conn
		if conn, err = s.connection(ctx); err != nil {
			return err
		}
		err = do(reading, conn)
		broken := s.release(conn)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case reading.Err() != nil:
			return unavailable(err)
		case !broken:
			return meaning(err)
		}
		err = unavailable(err)
	}
	return err
}

// once runs one statement that writes. The end of the caller's context does not interrupt a
// statement that has begun, so that a completed statement is never reported as canceled.
func (s *Store) once(ctx context.Context, do func(ctx context.Context,
	q *pgxpool.Conn) error) error {
	conn, err := s.writing(ctx)
	if err != nil {
		return err
	}
	defer s.release(conn)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	return outcome(conn, do(ctx, conn))
}

// transact runs statements as one transaction. If they return an error of package storage, nothing
// is written. The outcome is unknown only if the connection breaks during the commit.
func (s *Store) transact(
	ctx context.Context, longest time.Duration, do func(ctx context.Context, tx pgx.Tx) error,
) error {
	conn, err := s.writing(ctx)
	if err != nil {
		return err
	}
	defer s.release(conn)
	soon, stop := context.WithTimeout(ctx, statementTime) // nothing is written before the beginning
	defer stop()
	tx, err := conn.Begin(soon)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	if err == nil {
		if err = do(ctx, tx); err != nil {
			_ = tx.Rollback(ctx) // an error of Rollback closes the connection
		}
	}
	if err != nil {
		if conn.Conn().IsClosed() && !ours(err) {
			return unavailable(err)
		}
		return meaning(err)
	}
	return outcome(conn, tx.Commit(ctx))
}

// outcome converts an error of the statement that writes or commits. If the connection is closed,
// the outcome is unknown. pgconn.SafeToRetry does not help: in pgx v5.12.0 it is also true if the
// statement was sent, but its answer could not be read on a closed connection
// (PgConn.receiveMessage).
func outcome(conn *pgxpool.Conn, err error) error {
	switch {
	case err == nil:
		return nil
	case !conn.Conn().IsClosed():
		return meaning(err)
	}
	return unknown(err)
}

// ours reports whether err already is an error of package storage.
func ours(err error) bool {
	return slices.ContainsFunc([]error{
		storage.ErrInvalid, storage.ErrNotFound, storage.ErrExists, storage.ErrSequence,
		storage.ErrRange, storage.ErrFenced, storage.ErrCorrupt, storage.ErrNoSpace,
		storage.ErrUnavailable, storage.ErrUnknown, storage.ErrClosed,
		storage.ErrTaken, storage.ErrQuota, storage.ErrOwned,
	}, func(known error) bool { return errors.Is(err, known) })
}

// meaning converts the error of a statement that the database refused. Such a statement has written
// nothing. The error codes are in appendix A of PostgreSQL's manual.
func meaning(err error) error {
	if ours(err) {
		return err
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	in := func(codes ...string) bool {
		begins := func(code string) bool { return strings.HasPrefix(refused.Code, code) }
		return ok && slices.ContainsFunc(codes, begins)
	}
	switch {
	case in("23505") && refused.ConstraintName == "sessions_name": // unique_violation
		return fmt.Errorf("postgres: %w: %w", storage.ErrTaken, err)
	case in("53100"): // disk_full
		return fmt.Errorf("postgres: %w: %w", storage.ErrNoSpace, err)
	case in("XX001", "XX002"): // data_corrupted, index_corrupted
		return &storage.CorruptError{File: "the database", Byte: -1, Offset: -1,
			What: refused.Error()}
	// These errors are temporary: rolled back transactions and deadlocks (40), missing resources
	// (53), unavailable locks (55P03), and interventions of an operator (57). A database server is
	// read-only (25006) if another has replaced it.
	case in("40", "53", "55P03", "57", "25006"):
		return unavailable(err)
	}
	return fmt.Errorf("postgres: %w", err)
}
