package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// An object store that is not mounted, or a wrong bucket, looks like an empty object store. So the
// object store of a database has a marker: an object with the id of the database. If an object is
// missing but the marker exists, the object is lost. If the marker is missing, too, the objects may
// come back. Until then nothing is written, trimmed or deleted.

const (
	// markerName has a dot, so that no other object has this name. All other names begin with the
	// id of a session, which has no dot.
	markerName     = "lmserve.marker"
	markerBytesMax = 256
	// longest time for reading the marker, or the size of an object
	markerTime = 10 * time.Second
	// adoptLook is the largest number of objects for which recognize looks in an object store
	// without a marker.
	adoptLook = 16
)

// away returns the error for an object store without the right marker. Parameter `found` describes
// what was found instead of the marker.
func (o *objects) away(found string) error {
	return unavailable(fmt.Errorf("the object store %s does not belong to database %s: found %s, "+
		"expected the object %s with the id %s; mount the folder, or name the bucket, that has "+
		"the states. If only the marker is missing, run 'lmserve migrate --store URL --objects "+
		"URL'",
		o.where, o.database, found, markerName, o.id))
}

// marker returns the id in the marker, or "" if there is no marker.
func (o *objects) marker(ctx context.Context) (id string, err error) {
	looking, cancel := context.WithTimeout(ctx, markerTime)
	defer cancel()
	r, err := o.bucket.read(looking, markerName)
	if err == nil {
		var text []byte
		text, err = io.ReadAll(io.LimitReader(r, markerBytesMax))
		err = errors.Join(err, r.Close())
		id = strings.TrimSpace(string(text))
	}
	switch {
	case err == nil && id == "":
		return "none", nil // the marker is empty; no database has the id "none"
	case err == nil, ctx.Err() != nil:
		return id, ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	}
	return "", unavailable(fmt.Errorf("reading object %s of %s: %w", markerName, o.where, err))
}

func (o *objects) is(id string) error {
	switch id {
	case o.id:
		return nil
	case "":
		return o.away("no such object")
	}
	return o.away(fmt.Sprintf("an object with the id %q", id))
}

// present checks that the object store has the marker of the database. It reports when the object
// store disappears or comes back. It reads the marker in each call, because a folder may be
// unmounted between two calls.
func (o *objects) present(ctx context.Context) error {
	id, err := o.marker(ctx)
	if err == nil {
		err = o.is(id)
	}
	if ctx.Err() != nil {
		return err
	}
	if gone := err != nil; o.gone.Swap(gone) != gone && o.report != nil {
		if gone {
			o.report(err)
		} else {
			o.report(fmt.Errorf("postgres: the object store %s is available again", o.where))
		}
	}
	return err
}

// holds returns an error if the object store does not have the marker of the database. It also
// returns an error if the object is missing, or if its size is not the parameter bytes.
func (o *objects) holds(ctx context.Context, name string, bytes int64) error {
	looking, cancel := context.WithTimeout(ctx, markerTime)
	defer cancel()
	found, err := o.bucket.size(looking, name)
	if err := o.present(ctx); err != nil {
		return err
	}
	if err != nil && looking.Err() != nil && ctx.Err() == nil {
		return unavailable(fmt.Errorf("looking for object %s: no answer within %v", name,
			markerTime))
	}
	if err == nil && found != bytes {
		err = fmt.Errorf("the object has %d bytes, expected %d", found, bytes)
	}
	return objectError("looking for object "+name, err)
}

func (o *objects) mark(ctx context.Context) error {
	err := o.bucket.write(ctx, markerName, func(w io.Writer) error {
		_, err := io.WriteString(w, o.id+"\n")
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return objectError("writing object "+markerName, err)
	}
	return o.present(ctx)
}

func (s *Store) present(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return s.objects.present(ctx)
}

// openMarked opens the object store, and checks that it has the marker of the database. If the
// database has not used any object store yet, openMarked creates a missing folder, and writes the
// marker. If adopt is true, it also writes a missing marker to an object store that has snapshots
// of the database.
func (s *Store) openMarked(ctx context.Context, database, url string, adopt bool) error {
	var id string
	var marked, first bool
	err := s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		return q.QueryRow(ctx, markedRow).Scan(&id, &marked, &first)
	})
	if err != nil {
		return err
	}
	if s.objects, err = openObjects(ctx, url, first); err != nil {
		return err
	}
	s.objects.id, s.objects.database = id, database
	if marked && !adopt {
		err = s.find(ctx)
	} else {
		err = s.adopt(ctx, adopt)
	}
	if err != nil {
		return errors.Join(err, s.objects.close())
	}
	s.objects.report = s.report
	return nil
}

// find checks the marker of an object store that had the marker before. It returns no error if the
// object store cannot be reached, because each use checks the marker again.
func (s *Store) find(ctx context.Context) error {
	found, err := s.objects.marker(ctx)
	switch {
	case err == nil:
		return s.objects.is(found)
	case ctx.Err() != nil:
		return err
	}
	s.objects.gone.Store(true)
	s.report(err)
	return nil
}

// markedRow is the SQL query for three values: the id of the database, whether its object store was
// marked, and whether the database has not used any object store yet.
const markedRow = `
	select id, marked, not marked and not exists (select from objects) from object_store`

// adopt writes a missing marker if the database has not used any object store yet, or if the
// parameter `asked` is true. Otherwise it returns an error for a missing marker. adopt locks the
// database's row. So if servers start at once with different object stores, only the first object
// store is marked.
func (s *Store) adopt(ctx context.Context, asked bool) error {
	return s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		var id string
		var marked, first bool
		err := tx.QueryRow(ctx, markedRow+` for update`).Scan(&id, &marked, &first)
		if err != nil {
			return err
		}
		found, err := s.objects.marker(ctx)
		if err == nil && found == "" && asked && !first {
			err = s.recognize(ctx, tx)
		}
		switch {
		case err != nil:
		case found == "" && (first || asked):
			err = s.objects.mark(ctx)
		default:
			err = s.objects.present(ctx)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `update object_store set marked = true where not marked`)
		}
		return err
	})
}

// recognize checks that an object store without a marker has at least one of the database's newest
// snapshots. It returns no error for a database without snapshots.
func (s *Store) recognize(ctx context.Context, tx pgx.Tx) error {
	rows, _ := tx.Query(ctx,
		`select object from objects where refs > 0 order by since desc limit $1`,
		adoptLook)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		_, err := s.objects.bucket.size(ctx, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return objectError("looking for object "+name, err)
		}
	}
	return s.objects.away(fmt.Sprintf("no marker, and none of the %d newest states",
		len(names)))
}
