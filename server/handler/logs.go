package handler

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
)

// LogSessions configures the sessions that log shippers feed.
type LogSessions struct {
	Name *intake.Template // derives the session's name from a record; nil: intake.NameDefault
	// If Make is true, missing sessions are created with Settings.
	Make     bool
	Settings session.Settings
}

var defaultName, _ = intake.ParseTemplate(intake.NameDefault)

// refusal counts the records of a batch that the server cannot accept, even if the client sends
// them again.
type refusal struct {
	records int
	why     error // reason of the first refused record
}

// feedLogs feeds the log records in a body to their sessions, and returns when the text is durable.
// After an error the client may send the same body again. The server then skips records with times
// that it has already fed.
func (h *Handlers) feedLogs(
	ctx context.Context, body io.Reader, need func(begin []byte, bytes int64) int64,
	read func([]byte, *intake.Template) (*intake.Batch, error),
) (refused refusal, err error) {
	raw, taken, err := middleware.TakeWhole(ctx, h.Memory, body, need)
	if err != nil {
		return refused, err
	}
	defer taken.Keep(0)
	name := h.Logs.Name
	if name == nil {
		name = defaultName
	}
	batch, err := read(raw, name)
	if err != nil {
		return refused, err
	}
	taken.Keep(limits.LogKeptFactor * batch.Bytes())
	if batch.Refused > 0 {
		refused.records = batch.Refused
		refused.why = problem.New(api.ProblemMalformedBody, batch.Why)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, limits.FeedWait, session.ErrQueueFull)
	defer cancel()
	slices.SortStableFunc(batch.Streams, func(a, b *intake.Stream) int {
		// streams without a key last, because a repetition would feed them twice
		return cmp.Compare(len(b.Key()), len(a.Key()))
	})
	var late error // error after which the client must send the body again, or nil
	for _, s := range batch.Streams {
		if late != nil && s.Key() == "" {
			break
		}
		err := h.feedStream(waiting, s)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return refused, context.Cause(ctx)
		case waiting.Err() != nil:
			late = cmp.Or(late, context.Cause(waiting))
		case isPassing(err):
			late = cmp.Or(late, err)
		default:
			if refused.why == nil {
				refused.why = err
			}
			refused.records += s.Records
		}
	}
	return refused, late
}

func (h *Handlers) feedStream(ctx context.Context, s *intake.Stream) error {
	if fed, err := middleware.FeedElsewhere(ctx, s.Name, s.Key(), s.Text); fed || err != nil {
		return err
	}
	who := middleware.CallerOf(ctx)
	id, err := h.logSession(ctx, who, s.Name)
	if err != nil {
		return err
	}
	o := session.ScoreOptions{
		Lines: true, Incidents: true, Threshold: limits.ThresholdDefault, Wait: limits.FeedWait,
	}
	d := session.Delivery{Key: s.Key(), Text: s.Text}
	_, err = h.Sessions.Deliver(ctx, who, id, d, o, func(session.Chunk) error { return nil })
	return err
}

func (h *Handlers) logSession(
	ctx context.Context, who session.Caller, name string,
) (id string, err error) {
	info, err := h.Sessions.Get(who, name)
	switch {
	case err == nil:
		return info.ID, nil
	case !errors.Is(err, session.ErrNotFound):
		return "", err
	case !h.Logs.Make:
		return "", problem.New(api.ProblemSessionNotFound,
			"No session has the name "+problem.Quoted(name)+", and the server creates no "+
				"sessions for logs.")
	}
	info, _, err = h.Sessions.Put(ctx, who, name, session.CreateRequest{Settings: h.Logs.Settings})
	// Another request created the session.
	if other, ok := errors.AsType[*session.DifferError](err); ok {
		return other.ID, nil
	}
	return info.ID, err
}

// isPassing reports whether a failed request may succeed when repeated.
func isPassing(err error) bool {
	switch problem.Of(err).Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage,
		http.StatusRequestTimeout, http.StatusInternalServerError:
		return true
	}
	return false
}
