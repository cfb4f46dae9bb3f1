package main

import (
	"context"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/cluster"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/server/middleware"
)

// leaveTime limits how long an exiting server tries to inform the other servers. Servers that were
// not informed wait until the lease of the exiting server expires.
const leaveTime = 5 * time.Second

type clusterFlags struct {
	advertise string // this server's URL for other servers; "" if it is the only server
	node      string
	lease     time.Duration
}

func (f *clusterFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.advertise, "advertise", "",
		"with --store, URL at which other servers of the same database reach this server; the "+
			"servers share the sessions,\n"+
			"and forward requests to the server that holds the session (default: none, this "+
			"server uses the database alone)")
	flags.StringVar(&f.node, "node", "",
		"with --advertise, unique and lasting name of this server among the servers that "+
			"share the database\n"+
			"(default: host and port of --advertise)")
	flags.DurationVar(&f.lease, "lease", cluster.LeaseDefault,
		"with --advertise, time after which other servers take over the sessions of a lost "+
			"server")
}

func (f *clusterFlags) given() bool { return f.advertise != "" }

func (f *clusterFlags) check(store, userSessions bool) error {
	switch {
	case !f.given() && f.node != "":
		return usagef("--node is given without --advertise, expected both")
	case !f.given():
		return nil
	case !store:
		return usagef("--advertise is given without --store, expected both: servers " +
			"share the sessions of a database")
	case userSessions:
		return usagef("--user-sessions and --advertise are both given, expected one of them: " +
			"users' sessions are found by labels, which only one server knows")
	case f.lease < time.Second:
		return usagef("--lease is %v, expected at least 1s", f.lease)
	}
	u, err := url.Parse(f.advertise)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return usagef("--advertise is %q, expected a URL such as https://host:port", f.advertise)
	}
	return nil
}

// names returns the host names that requests may use. A server with keys checks host names only if
// --allow-host is given.
func (f *serveFlags) names(ring *keys.Ring) []string {
	u, err := url.Parse(f.cluster.advertise)
	if err != nil || u.Hostname() == "" || len(f.allowHosts) == 0 && ring != nil &&
		ring.Required() {
		return f.allowHosts
	}
	return append(f.allowHosts, u.Hostname()) // other servers use the advertised name
}

func (f *clusterFlags) self(models servedModels) cluster.Node {
	n := cluster.Node{
		Name: f.node, Addr: f.advertise, Numerics: models.first.Arithmetic.Numerics(),
	}
	if u, err := url.Parse(f.advertise); n.Name == "" && err == nil {
		n.Name = u.Host
	}
	n.ID = n.Name + "/" + uuid.NewString()
	for _, m := range models.known() {
		n.Models = append(n.Models, m.Hash())
	}
	return n
}

// knownMore is a margin for delays. After one heartbeat interval and this margin, all other servers
// have noticed that this server drains.
const knownMore = 100 * time.Millisecond

// joined is a server's membership in a group of servers that share a store. It is nil if the store
// is not shared.
type joined struct {
	store  *postgres.Store
	member *cluster.Member
	log    *zap.Logger
}

func (f *clusterFlags) join(
	ctx context.Context, store *postgres.Store, self cluster.Node, log *zap.Logger,
) (*joined, error) {
	m, err := cluster.Join(ctx, cluster.Options{
		Self: self, Directory: store, Lease: f.lease,
		Report: logged(log, "cluster"),
	})
	if err != nil {
		return nil, err
	}
	return &joined{store, m, log}, nil
}

// places returns the router that finds the server for each request. It returns nil if this server
// serves every request.
func (j *joined) places(sessions *session.Manager) middleware.Places {
	if j == nil {
		return nil
	}
	return &cluster.Router{Member: j.member, Sessions: j.store, Holds: sessions.Holds}
}

// handOver gives the sessions to the other servers. It first informs them that this server drains,
// so that they do not send the sessions back.
func (j *joined) handOver(ctx context.Context, sessions *session.Manager) {
	if j == nil {
		return
	}
	if err := j.member.Drain(ctx); err != nil {
		j.log.Warn("the other servers could not be told that this server shuts down",
			zap.Error(err))
	}
	if len(j.member.Alive()) > 1 {
		select {
		case <-ctx.Done():
		case <-time.After(j.member.Beat() + knownMore):
		}
	}
	sessions.HandOver(ctx)
}

func (j *joined) leave() {
	if j == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := j.member.Leave(ctx); err != nil {
		j.log.Warn("the other servers must wait until this server's lease ends", zap.Error(err))
	}
}
