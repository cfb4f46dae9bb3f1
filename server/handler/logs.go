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
	Name *intake.Template // names the session of a record; nil: intake.NameDefault
	// Make creates a missing session with Settings.
	Make     bool
	Settings session.Settings
}

// defaultName names sessions without a configured template.
var defaultName, _ = intake.ParseTemplate(intake.NameDefault)

// refusal counts the records of a batch that can never be fed, even if sent again.
type refusal struct {
	records int
	why     error // the first reason
}

// feedLogs feeds a body to the sessions of its streams, and returns once the text is durable. After
// an error the same body may succeed when sent again: records with times are then not fed twice.
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
		return cmp.Compare(len(b.Key()), len(a.Key())) // streams without a key last
	})
	var late error // why the client must send the body again; nil if it must not
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

// feedStream feeds the lines of one stream, and creates a missing session.
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

// logSession finds or creates the session of a stream.
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
	if other, ok := errors.AsType[*session.DifferError](err); ok { // created by another request
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
