// Package postgres keeps sessions in a PostgreSQL database, and their snapshots in an object store
// (S3, or a folder): a storage.Store that outlives the machine of its server.
//
// The database alone says what there is: a session, with the epoch of the last claim on it, its
// records, and the names of the objects that its snapshots are in. A claim raises the epoch. Every
// write is conditional on the epoch, in the statement that writes or in its transaction, so that a
// former owner is fenced off however late its writes come. No clock but the database's decides
// anything.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// connectionsMax is how many connections to the database a store has at most, unless its URL says
// otherwise with pool_max_conns. Appends that have no connection wait for one.
const connectionsMax = 16

// parameters are settings of the connections, in the words of PostgreSQL, unless the URL has
// others: a process that is cut off must not keep others waiting for the locks of its transactions.
var parameters = map[string]string{
	"application_name":                    "lmserve",
	"idle_in_transaction_session_timeout": "20s",
	"lock_timeout":                        "20s",
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
}

// Options of a Store.
type Options struct {
	// Database is the URL of the database, postgres://user@host/name, with the parameters of libpq
	// and of pgxpool. Objects is that of the object store: s3://bucket, or file:///folder.
	Database, Objects string
	// Adopt marks an object store that has no marker as the database's, if it has some of the
	// database's snapshots. Without it Open refuses (ErrUnavailable) such a store, unless the
	// database has never had one, and always that of another database.
	Adopt bool
	// Alone makes Open refuse (ErrInUse) a database on which another store was opened so, after it
	// has waited so long for that store to be closed. It keeps a second server from starting by
	// mistake. What keeps two from writing to the same session are the epochs.
	Alone bool
	Wait  time.Duration
	// Node is the id of this server among those that share the database, see cluster.Node: what the
	// store makes or claims is this server's, as long as its lease lasts (Renew). Such stores may
	// be open at the same time, but not beside one that is open Alone, which they wait for. "": the
	// server is none of them, and what it claims is free.
	Node string
	// Terms says what the database has to know of a head. Nil: heads have no meaning.
	Terms func(head []byte) storage.Terms
	// Report is told of what a person should know and no call is to blame for. It may be called at
	// any time. Nil: nobody is told.
	Report func(error)
}

// Store implements storage.Store. See the package.
type Store struct {
	pool      *pgxpool.Pool
	beats     *pgxpool.Pool // the connection for renewals; nil without a node
	node      string
	terms     func(head []byte) storage.Terms
	objects   *objects
	report    func(error)
	sightings sightings
	closed    atomic.Bool
	careless  atomic.Pointer[error] // which setting of the database is off; nil: none
	stop      context.CancelFunc    // of what runs in the background
	running   sync.WaitGroup        // the same
}

// scheme is how the URL of a database begins; a longer form of it is taken, too.
const scheme = "postgres://"

// parse reads the URL of a database.
func parse(url string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(url, scheme) && !strings.HasPrefix(url, "postgresql://") {
		return nil, storage.Invalid("the URL of the database does not begin with %s, as in "+
			"%suser@host/name", scheme, scheme) // the URL may have a password, and is not told
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, storage.Invalid("the URL of the database: %v", err)
	}
	if !strings.Contains(url, "pool_max_conns=") {
		config.MaxConns = connectionsMax
	}
	for name, value := range parameters {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// Open opens a store whose database has been migrated; if it has not, the error is a SchemaError.
// The context is for the opening alone.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	config, err := parse(o.Database)
	if err != nil {
		return nil, err
	}
	s := &Store{report: o.Report, node: o.Node, terms: o.Terms}
	if s.report == nil {
		s.report = func(error) {}
	}
	config.AfterConnect = noteCareless
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	defer func() {
		if err != nil {
			s.pool.Close()
		}
	}()
	if err := check(ctx, s.pool, config.ConnConfig.Database); err != nil {
		return nil, err
	}
	if err := s.openMarked(ctx, config.ConnConfig.Database, o.Objects, o.Adopt); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.objects.close())
		}
	}()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	how := beside
	if o.Alone {
		how = alone
	}
	if o.Alone || o.Node != "" {
		if err := s.keepLock(ctx, background, config.ConnConfig, how, o.Wait); err != nil {
			stop()
			return nil, err
		}
	}
	if o.Node != "" {
		config.MaxConns, config.MinConns, config.AfterConnect = 1, 0, nil
		if s.beats, err = pgxpool.NewWithConfig(ctx, config.Copy()); err != nil {
			stop()
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	s.running.Go(func() { s.sweepAgainAndAgain(background) })
	return s, nil
}

// sleep waits, and reports false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Durable implements storage.Store: it is.
func (s *Store) Durable() bool { return true }

// Close implements storage.Store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return storage.ErrClosed
	}
	s.stop()
	s.running.Wait()
	s.pool.Close() // waits for the statements under way
	if s.beats != nil {
		s.beats.Close()
	}
	return s.objects.close()
}

var _ storage.Store = (*Store)(nil)
