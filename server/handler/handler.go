// Package handler implements the operations of the contract, api/openapi.yaml. A handler decodes
// the request with package codec, calls one method of Sessions, and encodes the result. Before
// that, package middleware has authenticated, limited and validated the request. Package problem
// turns a handler's errors into problem documents.
//
// Each operation is a method of Handlers, in its own file. The generated interface
// routes.StrictServerInterface lists the methods. For an answer that is neither JSON nor empty, a
// method returns a writer: a function that writes to the http.ResponseWriter.
package handler

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Sessions is the part of a session manager that handlers use. Its errors are the errors of package
// session. All methods may be called concurrently.
type Sessions interface {
	Create(ctx context.Context, who session.Caller, r session.CreateRequest) (session.Info, error)
	Put(ctx context.Context, who session.Caller, name string,
		r session.CreateRequest) (info session.Info, made bool, err error)
	Patch(ctx context.Context, who session.Caller, id string,
		r session.PatchRequest) (session.Info, error)
	Get(who session.Caller, id string) (session.Info, error)
	List(who session.Caller, after string, limit int,
		labels ...session.Label) (page []session.Info, next string, err error)
	Delete(who session.Caller, id string) error
	Fork(ctx context.Context, who session.Caller, id string,
		r session.ForkRequest) (session.Info, error)
	Export(ctx context.Context, who session.Caller, id string, wait time.Duration, w io.Writer,
		part func(session.Part)) error
	Import(ctx context.Context, who session.Caller, r io.Reader, name string) (session.Info, error)
	Score(ctx context.Context, who session.Caller, id string, body io.Reader,
		o session.ScoreOptions,
		emit func(session.Chunk) error) (session.Summary, error)
	ScoreTexts(ctx context.Context, who session.Caller, r session.ScoreTextsRequest,
		emit func(session.ModelInfo, session.Summary) error) error
	Watch(ctx context.Context, who session.Caller, id string, o session.WatchOptions,
		emit func(session.Event) error) error
	Text(ctx context.Context, who session.Caller, id string,
		offset, length int64) (session.TextPart, error)
	Scores(ctx context.Context, who session.Caller, id string, offset, length int64,
		points int) (session.History, error)
	Incidents(ctx context.Context, who session.Caller, id string) (session.IncidentList, error)
	GiveFeedback(ctx context.Context, who session.Caller, id string,
		r session.FeedbackRequest) (session.IncidentList, error)
	Deliver(ctx context.Context, who session.Caller, id string, d session.Delivery,
		o session.ScoreOptions, emit func(session.Chunk) error) (session.Summary, error)
	Complete(ctx context.Context, who session.Caller, id string, r session.CompleteRequest,
		emit func(session.Piece) error) (session.Completion, error)
	Suggest(ctx context.Context, who session.Caller, id string,
		r session.SuggestRequest) (session.Suggested, error)
	SuggestAfter(ctx context.Context, who session.Caller, id, model string, prompt []byte,
		r session.SuggestRequest) (session.Suggested, error)
	CompleteBatch(ctx context.Context, who session.Caller, id string, r session.BatchRequest,
		emit func(session.Piece) error) error
	Models() []session.ModelInfo
	ModelOf(who session.Caller, id string) (session.ModelInfo, error)
	Backup(ctx context.Context, who session.Caller, id string) (*session.Backup, error)

	// DiskAlarm returns why operations that need disk space are refused, or nil if they are
	// allowed.
	DiskAlarm() error
}

// Handlers implements the operations of the contract.
type Handlers struct {
	Sessions  Sessions
	Keys      *keys.Ring  // nil: the server requires no keys
	TakesWork func() bool // returns false once the server has begun to drain
	Problems  *answer.Problems
	Memory    *middleware.Memory
	Counted   http.Handler // serves the metrics
	Version   string       // version of the server for the web page; "": none

	// If UserSessions is set, a completion in OpenAI's form creates a session for a user who has
	// none.
	UserSessions bool
	users        users

	Logs LogSessions
}

var _ routes.StrictServerInterface = (*Handlers)(nil)

func (h *Handlers) encoder(ctx context.Context, id string) (codec.Encoder, error) {
	m, err := h.Sessions.ModelOf(middleware.CallerOf(ctx), id)
	return codec.NewEncoder(m), err
}

func sessionPath(id string) string { return "/v1/sessions/" + id }
