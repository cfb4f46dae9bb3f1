// Package postgres keeps sessions in a PostgreSQL database, and their snapshots in an object store
// (S3, or a folder). Its storage.Store survives the loss of the server's machine.
//
// Only the database decides which sessions exist. For each session it has the epoch of the last
// claim, the records, and the names of the snapshots' objects. A claim raises the epoch. Each write
// checks the epoch, in the statement that writes or in its transaction. So the database refuses
// writes of a former owner, however late they arrive. The database's clock decides when sessions
// expire. But each server decides by its own clock whether another server's lease has lapsed; see
// sightings.go.
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

// connectionsMax is the largest number of connections of a store to the database, unless the URL
// sets pool_max_conns. If all are in use, a call waits for a connection.
const connectionsMax = 16

// connectTime is the longest time for making a connection, unless the URL sets connect_timeout. The
// attempt occupies a place in the pool, also after its caller has left.
const connectTime = 5 * time.Second

// pingTime is the longest time for an idle connection of the pool to answer, unless the URL sets
// pool_ping_timeout. It is short, so that a lease outlasts the loss of an idle connection.
const pingTime = 2 * time.Second

// beatsMax is the largest number of connections for renewals. Renewals use one at a time, but pgx
// takes up to 15 s to close a connection that does not answer, longer than a lease.
const beatsMax = 4

// parameters are PostgreSQL settings of the connections, which the URL can override. They end the
// transactions of a process that is cut off, so that other processes do not wait for its locks.
var parameters = map[string]string{
	"application_name":                    "lmserve",
	"idle_in_transaction_session_timeout": "20s",
	"lock_timeout":                        "20s",
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
}

// Options are the settings of a Store.
type Options struct {
	// Database is the URL of the database, postgres://user@host/name, with the parameters of libpq
	// and of pgxpool. Objects is the URL of the object store: s3://bucket, or file:///folder.
	Database, Objects string
	// Adopt makes Open write the marker to an object store that has snapshots of the database but
	// no marker. Without Adopt, Open writes the marker only to the first object store of a
	// database, and otherwise returns ErrUnavailable if there is no marker. Open always refuses the
	// object store of another database.
	Adopt bool
	// Alone makes Open wait while another store with Alone or with Node has the database open. If
	// that takes longer than the time Wait, Open returns ErrInUse. Alone prevents the accidental
	// start of a second server. Epochs, not Alone, keep two servers from writing to the same
	// session.
	Alone bool
	Wait  time.Duration
	// Node is the id of this server among the servers that share the database; see cluster.Node.
	// Sessions that the store makes or claims belong to this server while its lease lasts (Renew).
	// Several stores with a Node may be open at once, but they wait for a store that is open with
	// Alone. If Node is "", the sessions that the store claims belong to no server.
	Node string
	// Terms extracts from a head the fields that the database needs. If Terms is nil, sessions have
	// no terms.
	Terms func(head []byte) storage.Terms
	// Report gets the errors that concern the operator and belong to no single call. The store may
	// call Report at any time. Report may be nil.
	Report func(error)
}

// Store implements storage.Store; see the comment of the package.
type Store struct {
	pool      *pgxpool.Pool
	beats     *pgxpool.Pool // connections for renewals; nil without a node
	node      string
	terms     func(head []byte) storage.Terms
	objects   *objects
	report    func(error)
	sightings sightings
	closed    atomic.Bool
	careless  atomic.Pointer[error] // the error for a setting that is off; nil if all are on
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// scheme is the scheme of a database's URL. The longer form, postgresql://, is accepted, too.
const scheme = "postgres://"

func parse(url string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(url, scheme) && !strings.HasPrefix(url, "postgresql://") {
		return nil, storage.Invalid("the URL of the database does not begin with %s, as in "+
			// the URL may contain a password, so the error does not show the URL
			"%suser@host/name", scheme, scheme)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, storage.Invalid("the URL of the database: %v", err)
	}
	if !strings.Contains(url, "pool_max_conns=") {
		config.MaxConns = connectionsMax
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTime
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTime
	}
	for name, value := range parameters {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// Open opens a store. If the tables of the database do not have the version that this program
// needs, the error is a SchemaError. The end of ctx after Open returns does not affect the store.
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
		config.MaxConns, config.MinConns, config.AfterConnect = beatsMax, 0, nil
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

// Durable implements storage.Store; it returns true.
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
