package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// A snapshot is written in three steps:
//  1. A row of the table objects says that the object may exist.
//  2. The object is written to the object store.
//  3. A transaction adds a row to the table snapshots.
//
// If the process is killed before the third step, a sweep finds and removes the object by its row.

const (
	// putTime is the longest time for writing an object to the object store. It is shorter than
	// sweepAge, so that no sweep removes an object that is being written.
	putTime = 30 * time.Minute
	// removeTime is the longest time that a call waits for the removal of objects. removers is the
	// number of objects that it removes at once.
	removeTime = 30 * time.Second
	removers   = 8
)

// WriteSnapshot implements storage.Store.
func (s *Store) WriteSnapshot(
	ctx context.Context, id string, epoch uint64, at int64, write func(io.Writer) error,
) error {
	if err := s.present(ctx); err != nil {
		return err
	}
	name := objectName(id, at, epoch)
	err := s.owned(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, e extent) error {
		if err := admit(ctx, tx, id, at, e); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into objects (object, refs) values ($1, 0)`, name)
		return err
	})
	if errors.Is(err, storage.ErrUnknown) { // if the row was inserted, a sweep removes it
		return fmt.Errorf("postgres: %w: %v", storage.ErrUnavailable, err)
	}
	if err != nil {
		return err
	}
	err = s.putSnapshot(ctx, id, epoch, at, name, write)
	if err != nil && !errors.Is(err, storage.ErrUnknown) {
		// After an error of remove, a sweep removes the object.
		_, _ = s.remove(context.WithoutCancel(ctx), []string{name})
	}
	return err
}

func (s *Store) putSnapshot(
	ctx context.Context, id string, epoch uint64, at int64, name string,
	write func(io.Writer) error,
) error {
	putting, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	bytes, sum, err := s.objects.put(putting, name, write)
	if err != nil && putting.Err() != nil && ctx.Err() == nil {
		err = unavailable(err)
	}
	if err != nil {
		return fmt.Errorf("postgres: writing a snapshot of session %s at offset %d: %w", id, at,
			err)
	}
	err = s.owned(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, e extent) error {
		if err := admit(ctx, tx, id, at, e); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `update objects set refs = 1 where object = $1 and refs = 0`,
			name)
		if err != nil {
			return err
		}
		if done.RowsAffected() == 0 {
			return unavailable(errors.New("writing the snapshot took too long: a cleanup of " +
				"incomplete snapshots removed it"))
		}
		_, err = tx.Exec(ctx, `
			insert into snapshots (session, at, bytes, sha256, object) values ($1, $2, $3, $4, $5)`,
			id, at, bytes, sum[:], name)
		return err
	})
	if errors.Is(err, storage.ErrUnknown) && s.isSnapshot(context.WithoutCancel(ctx), name) {
		return nil
	}
	return err
}

// isSnapshot reports whether an object belongs to a snapshot. It also returns false if the query
// fails.
func (s *Store) isSnapshot(ctx context.Context, name string) (is bool) {
	err := s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		return q.QueryRow(ctx, `select exists (select from snapshots where object = $1)`,
			name).Scan(&is)
	})
	return err == nil && is
}

func admit(ctx context.Context, tx pgx.Tx, id string, at int64, e extent) error {
	var has int
	var there bool
	err := tx.QueryRow(ctx, `
		select count(*), coalesce(bool_or(at = $2), false) from snapshots where session = $1`, id,
		at).
		Scan(&has, &there)
	switch {
	case err != nil:
		return err
	case there:
		return storage.SnapshotExists(id, at)
	}
	return storage.CheckSnapshot(id, at, e.start, e.end, has)
}

// Snapshots implements storage.Store.
func (s *Store) Snapshots(ctx context.Context, id string) (found []storage.Snapshot, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		if err := exists(ctx, q, id); err != nil {
			return err
		}
		rows, _ := q.Query(ctx, `
			select at, bytes, sha256 from snapshots where session = $1 order by at`, id)
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.Snapshot, error) {
			return scanSnapshot(row, id)
		})
		return err
	})
	if len(found) == 0 {
		found = nil
	}
	return found, err
}

// scanSnapshot reads a row that begins with the columns at, bytes and sha256. It stores the other
// columns in the variables to which more points.
func scanSnapshot(row pgx.Row, id string, more ...any) (k storage.Snapshot, err error) {
	var sum []byte
	if err := row.Scan(append([]any{&k.Offset, &k.Bytes, &sum}, more...)...); err != nil {
		return k, err
	}
	if len(sum) != len(k.SHA256) {
		return k, corrupt("snapshots", id, k.Offset,
			fmt.Errorf("the stored SHA-256 sum has %d bytes, expected %d", len(sum), len(k.SHA256)))
	}
	k.SHA256 = [32]byte(sum)
	return k, nil
}

func exists(ctx context.Context, q queryer, id string) (err error) {
	there := false
	if storage.CheckID(id) == nil {
		err = q.QueryRow(ctx, `select exists (select from sessions where id = $1)`, id).Scan(&there)
	}
	if err == nil && !there {
		return storage.NotFound(id)
	}
	return err
}

// ReadSnapshot implements storage.Store. It copies the object to a temporary file and verifies the
// checksum before it calls the function `read`.
func (s *Store) ReadSnapshot(
	ctx context.Context, id string, at int64, read func(io.Reader) error,
) error {
	name, want, err := s.findSnapshot(ctx, id, at)
	if err != nil {
		return err
	}
	in, bytes, sum, err := s.get(ctx, name)
	for errors.Is(err, storage.ErrNotFound) {
		// If the snapshot was dropped or replaced meanwhile, the missing object is no damage. Then
		// findSnapshot returns an error or another object.
		missing := name
		if name, want, err = s.findSnapshot(ctx, id, at); err != nil {
			return err
		}
		if name == missing {
			return corrupt("snapshots", id, at, fmt.Errorf("object %s is missing, expected %d "+
				"bytes", name, want.Bytes))
		}
		in, bytes, sum, err = s.get(ctx, name)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if bytes != want.Bytes || sum != want.SHA256 {
		if err := s.present(ctx); err != nil {
			return err
		}
		return corrupt("snapshots", id, at, fmt.Errorf("object %s has %d bytes with SHA-256 %x, "+
			"expected %d with %x", name, bytes, sum, want.Bytes, want.SHA256))
	}
	from, err := in.Reader()
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return storage.DecompressSnapshot(from, read)
}

// get is objects.get with a check of the marker, so that ErrNotFound means that the object is lost.
// It tries twice, because the object store may be mounted between the try and the check.
func (s *Store) get(
	ctx context.Context, name string,
) (in *spool.Spool, bytes int64, sum [sha256.Size]byte, err error) {
	for range 2 {
		in, bytes, sum, err = s.objects.get(ctx, name)
		if !errors.Is(err, storage.ErrNotFound) {
			break
		}
		if err := s.present(ctx); err != nil {
			return nil, 0, sum, err
		}
	}
	return in, bytes, sum, err
}

func (s *Store) findSnapshot(
	ctx context.Context, id string, at int64,
) (name string, found storage.Snapshot, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		if err := exists(ctx, q, id); err != nil {
			return err
		}
		row := q.QueryRow(ctx, `
			select at, bytes, sha256, object from snapshots where session = $1 and at = $2`, id, at)
		found, err = scanSnapshot(row, id, &name)
		if errors.Is(err, pgx.ErrNoRows) {
			return storage.SnapshotNotFound(id, at)
		}
		return err
	})
	return name, found, err
}

// DropSnapshot implements storage.Store.
func (s *Store) DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error {
	if err := s.present(ctx); err != nil {
		return err
	}
	var left []string
	err := s.owned(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, _ extent) (err error) {
		if left, err = release(ctx, tx, id, &at); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `delete from snapshots where session = $1 and at = $2`, id, at)
		if err == nil && done.RowsAffected() == 0 {
			return storage.SnapshotNotFound(id, at)
		}
		return err
	})
	if err != nil {
		return err
	}
	// after an error, a sweep removes the objects
	_, _ = s.remove(context.WithoutCancel(ctx), left)
	return nil
}

// release removes the reference from a session's snapshot at an offset to its object, or those of
// all snapshots if at is nil. It returns the objects that then have no references. It locks the
// rows of objects in the order of their names, so that two sessions that share objects do not
// deadlock.
func release(ctx context.Context, tx pgx.Tx, id string, at *int64) (left []string, err error) {
	rows, _ := tx.Query(ctx, `
		with held as (
			select object from objects where object in
				(select object from snapshots
					where session = $1 and ($2::bigint is null or at = $2))
			order by object for update
		), counted as (
			update objects o set refs = refs - 1, since = now() from held
			where o.object = held.object
			returning o.object, o.refs
		)
		select object from counted where refs = 0`, id, at)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// remove removes objects that belong to no snapshot, and then their rows. It returns the number of
// removed objects. It first checks the marker of the object store. In a wrong object store the
// objects are missing, and remove would treat them as removed. If it cannot remove some objects, it
// still removes the others.
func (s *Store) remove(ctx context.Context, names []string) (removed int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := s.present(ctx); err != nil {
		return 0, err
	}
	var g errgroup.Group
	g.SetLimit(removers)
	failed := make([]error, len(names))
	for n, name := range names {
		g.Go(func() error {
			failed[n] = s.objects.remove(ctx, name)
			return nil
		})
	}
	_ = g.Wait()
	var gone []string
	for n, name := range names {
		if failed[n] == nil {
			gone = append(gone, name)
		}
	}
	err = errors.Join(failed...)
	if ctx.Err() != nil {
		return 0, unavailable(errors.Join(ctx.Err(), err))
	}
	if away := s.present(ctx); away != nil {
		return 0, away
	}
	forgotten := s.once(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		_, err := q.Exec(ctx, `delete from objects where object = any($1) and refs <= 0`, gone)
		return err
	})
	return len(gone), errors.Join(err, forgotten)
}
