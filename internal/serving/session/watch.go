package session

import (
	"context"
	"sync"
	"time"
)

// WatchOptions select what Watch reports of the text that requests feed to a session. The zero
// value asks for chunks.
type WatchOptions struct {
	// Offset is the end of the text whose events the caller already has. If it is nil, Watch
	// reports only new events. If the session's text ends before Offset, the error is an
	// *OffsetError.
	Offset    *int64
	LogProbs  bool // LogProbs, Top and TokenBits are as in ScoreOptions
	Top       int
	Lines     bool // report lines instead of chunks; needs a session with lines
	TokenBits bool
	Incidents bool // report only lines that open, close or notably change an incident
	Records   bool // report records instead of lines; needs Lines and a session with records
	Text      bool
	Updates   bool
}

func (o *WatchOptions) detail() detail {
	return detail{
		logProbs: o.LogProbs, top: o.Top, chunkText: o.Text && !o.Lines,
		lines: o.Lines && !o.Records, records: o.Records, incidents: o.Lines && o.Incidents,
		lineText: o.Text && o.Lines, tokenBits: o.TokenBits, updates: o.Updates,
	}
}

// Watch calls emit with the events of the text that requests feed to a session. Watch ends in any
// of these cases: emit fails, the context ends, the session is deleted or expires (ErrNotFound), or
// the Manager drains (ErrDraining). Watch does not count as a use of the session, and needs no turn
// and no worker. Feeding does not wait for emit. Events that do not fit the queue are dropped, and
// reported as a Gap.
func (mg *Manager) Watch(
	ctx context.Context, who Caller, id string, o WatchOptions, emit func(Event) error,
) error {
	// A session in use stays registered, so w joins the session that requests feed.
	s, used, err := mg.index.useAny(who, id)
	if err != nil {
		return err
	}
	done := sync.OnceFunc(used)
	defer done()
	if err := s.unusable(); err != nil {
		return err
	}
	w, leave := mg.subscribers.join(&s.watchers, o.detail())
	defer leave()
	// The claim makes this server the owner of the session. Other servers then forward requests
	// that feed the session to this server.
	if err := s.hold(ctx); err != nil {
		return err
	}
	// get is called after join, so that no event is missed between the two calls
	info, err := mg.index.get(ctx, who, s.ID)
	if err != nil {
		return err
	}
	done()
	if o.Offset != nil && *o.Offset > info.Offset {
		return &OffsetError{Have: info.Offset, Want: *o.Offset}
	}
	if err := emit(Event{Start: &WatchStart{Info: info, LinesFrom: s.linesFrom()}}); err != nil {
		return err
	}
	if o.Offset != nil && *o.Offset < info.Offset {
		if err := emit(Event{Gap: &Gap{From: *o.Offset, To: info.Offset}}); err != nil {
			return err
		}
	}
	return mg.follow(ctx, w, info.Offset, emit)
}

func (mg *Manager) follow(
	ctx context.Context, w *watcher, offset int64, emit func(Event) error,
) error {
	idle := time.NewTicker(mg.watchIdle)
	defer idle.Stop()
	for {
		e, more, err := w.take()
		switch {
		case err != nil:
			return err
		case more && e.isBefore(offset):
			continue
		case more:
			if err := emit(e); err != nil {
				return err
			}
			idle.Reset(mg.watchIdle)
			continue
		}
		select {
		case <-w.ready:
		case <-idle.C:
			if err := emit(Event{}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
