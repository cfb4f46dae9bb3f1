package handler

import (
	"context"
	"errors"
	"net/http"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// WatchSession implements GET /v1/sessions/{id}/events.
func (h *Handlers) WatchSession(
	ctx context.Context, r routes.WatchSessionRequestObject,
) (routes.WatchSessionResponseObject, error) {
	options, err := codec.DecodeWatch(r.Params)
	if err != nil {
		return nil, err
	}
	encode, err := h.encoder(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	call := watchCall{h.Sessions, encode, r.ID, options}
	return writer(func(w http.ResponseWriter) error {
		return call.stream(ctx, answer.NewEventStream(w, middleware.MediaOf(ctx), h.Problems))
	}), nil
}

type watchCall struct {
	sessions Sessions
	encode   codec.Encoder
	id       string
	options  session.WatchOptions
}

// errHeadOnly ends the answer to a HEAD request.
var errHeadOnly = errors.New("handler: a HEAD request gets only the headers")

func (c watchCall) stream(ctx context.Context, events *answer.EventStream) error {
	err := c.sessions.Watch(ctx, middleware.CallerOf(ctx), c.id, c.options,
		func(e session.Event) error {
			if err := c.send(events, e); err != nil {
				return err
			}
			if middleware.HeadOnly(ctx) {
				return errHeadOnly
			}
			return nil
		})
	if errors.Is(err, errHeadOnly) {
		return nil
	}
	return events.Fail(ctx, err)
}

// send sends one event of a session. The id of the sent event is the offset after its text. A
// client that has lost the connection misses only events of text after this offset.
func (c watchCall) send(events *answer.EventStream, e session.Event) error {
	switch {
	case e.Start != nil:
		return events.Send(string(api.EventStart), e.Start.Offset, c.encode.Start(*e.Start))
	case e.Chunk != nil && c.options.Lines:
		return sendLines(events, c.encode, e.Chunk, offsetAfter(*e.Chunk), true)
	case e.Chunk != nil:
		return events.Send(string(api.EventChunk), offsetAfter(*e.Chunk), c.encode.Chunk(*e.Chunk))
	case e.Update != nil:
		return events.Send(string(api.EventUpdate), answer.NoID, codec.Update(*e.Update))
	case e.Gap != nil:
		return events.Send(string(api.EventGap), e.Gap.To, codec.Gap(*e.Gap))
	}
	return events.Idle()
}
