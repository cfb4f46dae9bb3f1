package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/tern/v2/migrate"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// schemaVersion is the version of the schema that this package needs. It is the number of the last
// migration.
const schemaVersion = 5

const versionTable = "lmserve_schema"

// undefinedTable is PostgreSQL's error code for a missing table.
const undefinedTable = "42P01"

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaError says that the tables of a database do not have the version that this program needs.
type SchemaError struct {
	Database string
	Have     int32 // version of the tables; 0 if there are none
	Want     int32
}

func (e *SchemaError) Error() string {
	found := fmt.Sprintf("postgres: the schema of database %s has version %d, expected %d",
		e.Database, e.Have, e.Want)
	switch {
	case e.Have == 0:
		return fmt.Sprintf(
			"postgres: database %s has no tables of lmserve, expected version %d of "+
				"them: run 'lmserve migrate --store URL'", e.Database, e.Want)
	case e.Have < e.Want:
		return found + ": run 'lmserve migrate --store URL'"
	}
	return found + ": run the lmserve version that migrated the database, or a newer version"
}

// Migrate brings the tables of the database to the version that this program needs, each step in a
// transaction. It returns the versions of the tables before and after; before is 0 if there were no
// tables. Programs that migrate the same database at the same time wait for each other, or get
// ErrInUse. The error is also ErrInUse if tables of an older version are in use by a server. If the
// tables have a newer version than this program needs, Migrate changes nothing and returns a
// SchemaError.
func Migrate(ctx context.Context, url string) (before, now int32, err error) {
	config, err := parse(url)
	if err != nil {
		return 0, 0, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return 0, 0, fmt.Errorf("postgres: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if before, err = version(ctx, conn); err != nil {
		return 0, 0, err
	}
	if before > schemaVersion {
		return 0, 0, &SchemaError{config.ConnConfig.Database, before, schemaVersion}
	}
	// No server may have the database open, because a running server needs the tables unchanged.
	if 0 < before && before < schemaVersion {
		free, err := takeLock(ctx, conn, alone) // the lock lasts until the connection ends
		if err == nil && !free {
			err = fmt.Errorf("postgres: database %s: %w: stop all other servers, then migrate "+
				"the tables",
				config.ConnConfig.Database, storage.ErrInUse)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return 0, 0, fmt.Errorf("postgres: %w", err)
	}
	steps, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = m.LoadMigrations(steps)
	}
	if err == nil {
		err = m.Migrate(ctx)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("postgres: migrating database %s: %w", config.ConnConfig.Database,
			err)
	}
	now, err = m.GetCurrentVersion(ctx)
	return before, now, err
}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of a database's schema, or 0 if the database has no schema.
func version(ctx context.Context, q queryer) (v int32, err error) {
	err = q.QueryRow(ctx, "select version from "+versionTable).Scan(&v)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == undefinedTable, errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("postgres: reading the version of the schema: %w", err)
	}
	return v, nil
}

// promises are the settings of PostgreSQL without which a crash may undo confirmed writes.
var promises = []string{"synchronous_commit", "fsync", "full_page_writes"}

func keepsPromises(ctx context.Context, q queryer, database string) error {
	var off []string
	err := q.QueryRow(ctx, `
		select array(select s from unnest($1::text[]) s where current_setting(s) = 'off')`,
		promises).
		Scan(&off)
	if err != nil {
		return fmt.Errorf("postgres: reading the settings of database %s: %w", database, err)
	}
	if len(off) > 0 {
		return fmt.Errorf(
			"postgres: %w: database %s has the setting %s = off, expected on: without it, "+
				"confirmed text could be lost", storage.ErrInvalid, database, off[0])
	}
	return nil
}

func check(ctx context.Context, q queryer, name string) error {
	have, err := version(ctx, q)
	if err != nil {
		return err
	}
	if have != schemaVersion {
		return &SchemaError{name, have, schemaVersion}
	}
	return keepsPromises(ctx, q, name)
}

// watchPromises checks the settings in promises again, because a reload of PostgreSQL may have
// changed them. While a setting is off, the store refuses to write. watchPromises reports whether
// the connection is broken.
func (s *Store) watchPromises(ctx context.Context, conn *pgx.Conn) (broken bool) {
	err := keepsPromises(ctx, conn, conn.Config().Database)
	if err != nil && !errors.Is(err, storage.ErrInvalid) {
		return true
	}
	var now *error
	if err != nil {
		now = &err
	}
	switch before := s.careless.Swap(now); {
	case now != nil && before == nil:
		s.report(fmt.Errorf("%w: writes are refused until the setting is on again", err))
	case now == nil && before != nil:
		s.report(errors.New("postgres: the required settings of the database are on again"))
	}
	return false
}

// carelessKey is the key in a connection's custom data under which noteCareless stores an error of
// keepsPromises.
const carelessKey = "careless"

// noteCareless checks the settings of a new connection, because the settings of the connection's
// role or database may have changed since the store was opened.
func noteCareless(ctx context.Context, conn *pgx.Conn) error {
	err := keepsPromises(ctx, conn, conn.Config().Database)
	if errors.Is(err, storage.ErrInvalid) {
		conn.PgConn().CustomData()[carelessKey] = err
		return nil
	}
	return err
}

// writing takes a connection from the pool for statements that write. It returns ErrUnavailable if
// a setting that makes writes durable is off.
func (s *Store) writing(ctx context.Context) (*pgxpool.Conn, error) {
	if err := s.careless.Load(); err != nil {
		return nil, unavailable(*err)
	}
	conn, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	if err, off := conn.Conn().PgConn().CustomData()[carelessKey].(error); off {
		_ = conn.Conn().Close(ctx) // a new connection may have other settings
		s.release(conn)
		return nil, unavailable(err)
	}
	return conn, nil
}
