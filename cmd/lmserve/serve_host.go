package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/server"
)

type opened struct {
	store    storage.Store
	sessions *session.Manager
	among    *joined // nil if the store is not shared with other servers
	where    string
}

func (f *serveFlags) openSessions(
	ctx context.Context, models servedModels, told *telemetry, log *zap.Logger,
) (_ *opened, err error) {
	o := &opened{}
	if f.cluster.given() {
		err = f.openShared(ctx, o, models, log)
	} else {
		o.store, o.where, err = f.openStore(ctx, told, log)
	}
	if err != nil {
		return nil, err
	}
	foreign := foreignSessions{report: logged(log, "sessions")}
	options := session.Options{
		Others:         models.others,
		Store:          o.store,
		Report:         foreign.note,
		Threads:        f.model.threads,
		MaxSessions:    f.maxSessions,
		MaxMemoryBytes: int64(f.budget),
		ReplayMax:      f.replayMax,
		ForkSnapshots:  f.forkSnapshots,
		DiskBudget:     int64(f.diskBudget),
		DiskAlarm:      reportAlarm(log),
	}
	if told != nil {
		options.Observer = told
	}
	if o.among != nil {
		options.Lease = o.among.member
		if told != nil {
			told.Among(func() int { return len(o.among.member.Alive()) })
		}
	}
	o.sessions, err = session.NewManager(models.first, options)
	if err != nil {
		o.among.leave()
		return nil, errors.Join(err, o.store.Close())
	}
	foreign.tell(log, models.ids(), o.where)
	if told != nil {
		told.follow(o.sessions)
	}
	return o, nil
}

func (f *serveFlags) openStore(
	ctx context.Context, told *telemetry, log *zap.Logger,
) (store storage.Store, where string, err error) {
	if f.data.network.given() {
		store, err := f.data.network.open(ctx, postgres.Options{
			Alone: true, Wait: serverWait, Report: logged(log, "store"),
		})
		if err != nil {
			return nil, "", err
		}
		return store, f.data.network.where(), nil
	}
	if f.data.dir == noDataDir {
		return storage.NewMemory(), "memory only", nil
	}
	dir, err := f.data.folder()
	if err != nil {
		return nil, "", err
	}
	data, err := folder.Open(dir, folder.Options{Report: logged(log, "data folder")})
	if err != nil {
		return nil, "", fmt.Errorf("--data-dir: %w", err)
	}
	if f.scrub {
		startScrub(ctx, data, told, log)
	}
	return data, "the data folder " + dir, nil
}

func (f *serveFlags) openShared(
	ctx context.Context, o *opened, models servedModels, log *zap.Logger,
) error {
	self := f.cluster.self(models)
	store, err := f.data.network.open(ctx, postgres.Options{
		Node: self.ID, Wait: serverWait, Report: logged(log, "store"),
	})
	if err != nil {
		return err
	}
	if o.among, err = f.cluster.join(ctx, store, self, log); err != nil {
		return errors.Join(err, store.Close())
	}
	o.store = store
	o.where = f.data.network.where() + ", among servers as " + self.Name
	return nil
}

func logged(log *zap.Logger, what string) func(error) {
	return func(err error) { log.Error(what, zap.Error(err)) }
}

type host struct {
	*opened
	srv   *server.Server
	admin net.Listener // nil without an admin address
	log   *zap.Logger
}

// serve answers requests until the context ends. Then serve drains the server for at most timeout.
func (h *host) serve(ctx context.Context, l net.Listener, timeout time.Duration) error {
	wait, failed := h.serveAll(l)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	h.log.Info("draining", zap.Duration("timeout", timeout))
	drain, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	h.among.handOver(drain, h.sessions)
	return errors.Join(h.srv.Drain(drain), wait())
}

func reportAlarm(log *zap.Logger) func(error) {
	return func(why error) {
		if why != nil {
			log.Error("the disk is nearly full: requests that need disk space are refused",
				zap.Error(why))
			return
		}
		log.Info("the disk has space again")
	}
}

// scrubbing sets the speed at which a server scans its files for damage. Tests set a higher speed.
var scrubbing = folder.ScrubOptions{FilesPerSecond: 4, Rest: time.Hour}

// startScrub scans the data folder for damage until the context ends or the store closes.
func startScrub(
	ctx context.Context, data *folder.Folder, told *telemetry, log *zap.Logger,
) {
	report, o := logged(log, "data folder"), scrubbing
	o.Report = func(d *storage.CorruptError) {
		report(d)
		if told != nil {
			told.ScrubFinding()
		}
	}
	go data.ScrubForever(ctx, o)
}

// checkOwners returns an error if sessions have owners but the server has no keys. A lost or
// forgotten keys file must not expose these sessions.
func (f *serveFlags) checkOwners(sessions *session.Manager, ring *keys.Ring, where string) error {
	if f.openToAll || ring != nil && ring.Required() {
		return nil
	}
	owned, example, err := countOwned(sessions)
	if err != nil || owned == 0 {
		return err
	}
	path, err := f.data.path()
	if err != nil {
		return err
	}
	return usagef("%s has %d sessions that belong to keys (the first is %s, of the key %s), but "+
		"the keys file %s is missing: without the file nobody could use them; restore the "+
		"file, name another with --keys-file, make a new file with 'lmserve keys add NAME "+
		"--admin', or give --open-to-anyone",
		where, owned, example.ID, example.Owner, path)
}

func countOwned(sessions *session.Manager) (owned int, first session.Info, err error) {
	for after := ""; ; {
		page, next, err := sessions.List(session.Caller{Admin: true}, after, session.ListMax)
		if err != nil {
			return 0, first, err
		}
		for _, info := range page {
			if info.Owner == "" {
				continue
			}
			if owned++; owned == 1 {
				first = info
			}
		}
		if next == "" {
			return owned, first, nil
		}
		after = next
	}
}
