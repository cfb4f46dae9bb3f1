package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
)

// Score implements POST /v1/sessions/{id}/score.
func (h *handlers) Score(ctx context.Context, r api.ScoreRequestObject) (api.ScoreResponseObject, error) {
	text, err := scoreText(r)
	if err != nil {
		return nil, err
	}
	sc := &scoring{
		server:  h.Server,
		ctx:     ctx,
		id:      r.ID,
		text:    text,
		options: session.ScoreOptions{Offset: r.Params.Offset, LogProbs: value(r.Params.Logprobs)},
	}
	if media := negotiated(ctx); media != mediaJSON {
		return scoreStream{scoring: sc, media: media}, nil
	}
	summary, err := sc.run(func(session.Chunk) error { return nil })
	if err != nil {
		return nil, err
	}
	return api.Score200JSONResponse(encodeSummary(summary)), nil
}

// scoreText gives the text of a request: the body as it comes in, or what its JSON holds.
func scoreText(r api.ScoreRequestObject) (io.Reader, error) {
	if media, _ := mediaTypeOf(r.ContentType); media != mediaJSON {
		return r.Body, nil
	}
	var body api.ScoreText
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, decodeProblem(err)
	}
	if body.Text != nil {
		return bytes.NewReader([]byte(*body.Text)), nil
	}
	return bytes.NewReader(body.Base64), nil
}

// scoring is one call of Sessions.Score.
type scoring struct {
	server  *Server
	ctx     context.Context
	id      string
	text    io.Reader
	options session.ScoreOptions
}

// run makes the call. An error after the first chunk carries the session's offset, whatever its type: what was reported stays.
func (s *scoring) run(emit func(session.Chunk) error) (session.Summary, error) {
	offset := int64(-1)
	summary, err := s.server.sessions.Score(s.ctx, callerOf(s.ctx).Caller, s.id, s.text, s.options, func(c session.Chunk) error {
		offset = c.Total.Bytes
		return emit(c)
	})
	if err == nil {
		return summary, nil
	}
	p := problemOf(err)
	if p.Offset == nil && offset >= 0 {
		p.at(offset)
	}
	return summary, p
}

// scoreStream answers with an event for each chunk, while the text comes in.
type scoreStream struct {
	*scoring
	media string
}

var _ api.ScoreResponseObject = scoreStream{}

// VisitScoreResponse implements api.ScoreResponseObject.
func (s scoreStream) VisitScoreResponse(w http.ResponseWriter) error {
	events := &eventStream{w: w, media: s.media}
	summary, err := s.run(func(c session.Chunk) error {
		return events.send(string(api.EventChunk), c.Total.Bytes, encodeChunk(c))
	})
	if err != nil {
		return s.server.endStream(s.ctx, events, err)
	}
	return events.send(string(api.EventSummary), summary.Offset, encodeSummary(summary))
}

// endStream ends a streamed answer that failed: with an event if it has begun and somebody is there to read it, otherwise by giving the
// error back.
func (s *Server) endStream(ctx context.Context, events *eventStream, err error) error {
	if !events.begun || events.gone || ctx.Err() != nil {
		return err
	}
	doc := s.document(ctx, err)
	s.log.Info("stream ended early", zap.String("request_id", doc.RequestID), zap.String("problem", string(doc.Type)))
	return events.send(string(api.EventError), -1, api.ErrorEvent{Type: api.EventError, Problem: doc})
}
