package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/pgstore"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/server"
)

// How often, and how patiently, a server opens a folder again that it has found damaged.
const (
	reopeningsMax  = 3 // within reopeningsTime; then the server ends
	reopeningsTime = time.Hour
	reopeningWaits = 5 * time.Second // for the chunks and completions under way

)

// opened is the store of the sessions and their manager.
type opened struct {
	store    sessionlog.Store
	sessions *session.Manager
	among    *joined // the servers that share the store; nil: there are none
	where    string  // the store, in words
}

// openSessions opens the store of the sessions.
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
	foreign := foreignSessions{report: func(err error) { log.Error("sessions", zap.Error(err)) }}
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
		told.Follow(o.sessions)
	}
	return o, nil
}

// openStore opens the store of the sessions, and says in words where the sessions are.
func (f *serveFlags) openStore(
	ctx context.Context, told *telemetry, log *zap.Logger,
) (store sessionlog.Store, where string, err error) {
	if f.data.network.given() {
		store, err := f.data.network.open(ctx, pgstore.Options{
			Alone: true, Wait: serverWait, Report: reportStore(log),
		})
		if err != nil {
			return nil, "", err
		}
		return store, f.data.network.where(), nil
	}
	if f.data.dir == noDataDir {
		return sessionlog.NewMemory(), "memory only", nil
	}
	dir, err := f.data.folder()
	if err != nil {
		return nil, "", err
	}
	compacted := func(done sessionlog.Compacted, err error) {
		log.Info("the database was mostly free", zap.String("folder", dir),
			zap.Int64("bytes_before", done.Before), zap.Int64("bytes_after", done.After),
			zap.Error(err))
	}
	folder, err := sessionlog.Open(dir, sessionlog.Options{
		Report: reportDamage(log), Compacted: compacted, Serving: true,
	})
	if err != nil {
		return nil, "", fmt.Errorf("--data-dir: %w", err)
	}
	if f.scrub {
		startScrub(ctx, folder, told, log)
	}
	return folder, "the data folder " + dir, nil
}

// openShared opens a database for a server among others, which it joins.
func (f *serveFlags) openShared(
	ctx context.Context, o *opened, models servedModels, log *zap.Logger,
) error {
	self := f.cluster.self(models)
	store, err := f.data.network.open(ctx, pgstore.Options{
		Node: self.ID, Wait: serverWait, Report: reportStore(log),
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

// reportStore returns a function that logs what a person should know of the store.
func reportStore(log *zap.Logger) func(error) {
	return func(err error) { log.Error("store", zap.Error(err)) }
}

// host serves the sessions of a store, and opens the store again when damage has ended it.
type host struct {
	*opened
	open  func() (*opened, error)
	srv   *server.Server
	admin net.Listener // nil: none
	told  *telemetry
	log   *zap.Logger

	reopenings []time.Time
}

// serve serves until the context ends, or the store fails for good, and then drains.
func (h *host) serve(ctx context.Context, l net.Listener, timeout time.Duration) error {
	wait, failed := h.serveAll(l)
	for goesOn := true; goesOn; {
		select {
		case err := <-failed:
			return err
		case <-h.sessions.Failed():
			goesOn = h.reopen(ctx)
		case <-ctx.Done():
			goesOn = false
		}
	}
	h.log.Info("draining", zap.Duration("timeout", timeout))
	drain, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	h.among.handOver(drain, h.sessions)
	err := errors.Join(h.srv.Drain(drain), wait())
	return errors.Join(h.sessions.Err(), err) // the store may also have failed during the drain
}

// reopen opens a store again that damage has ended: the opening makes a database of what the damage
// has left, as at every start. Until then requests are told that the store has failed, and that
// they may try again. It reports false if the server should end.
func (h *host) reopen(ctx context.Context) bool {
	failure := h.sessions.Err()
	h.log.Error("the data folder has failed", zap.Error(failure))
	began := time.Now()
	for len(h.reopenings) > 0 && began.Sub(h.reopenings[0]) > reopeningsTime {
		h.reopenings = h.reopenings[1:]
	}
	if !errors.Is(failure, sessionlog.ErrCorrupt) || len(h.reopenings) >= reopeningsMax {
		return false
	}
	h.reopenings = append(h.reopenings, began)
	wait, cancel := context.WithTimeout(ctx, reopeningWaits)
	defer cancel()
	// What takes longer ends on its own, with an error of the store.
	if err := h.sessions.Drain(wait); err != nil {
		h.log.Warn("the data folder is opened again", zap.Error(err))
	}
	if err := h.store.Close(); err != nil {
		h.log.Error("the data folder is not opened again", zap.Error(err))
		return false
	}
	o, err := h.open()
	if err != nil {
		h.log.Error("the data folder is not opened again", zap.Error(err))
		return false
	}
	h.opened = o
	h.srv.Replace(o.sessions)
	h.told.Reopened()
	h.log.Warn("the data folder is open again", zap.Duration("took", time.Since(began)))
	return true
}

// reportAlarm returns a function that logs that too little is left of the disk, and that there is
// room again.
func reportAlarm(log *zap.Logger) func(error) {
	return func(why error) {
		if why != nil {
			log.Error("the disk has too little room: nothing is done that needs more of it", zap.Error(why))
			return
		}
		log.Info("the disk has room again")
	}
}
