package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// Score implements POST /v1/sessions/{id}/score.
func (h *Handlers) Score(
	ctx context.Context, r routes.ScoreRequestObject,
) (routes.ScoreResponseObject, error) {
	options, err := codec.DecodeScoreOptions(r.Params)
	if err != nil {
		return nil, err
	}
	text, err := scoreText(r)
	if err != nil {
		return nil, err
	}
	media := middleware.MediaOf(ctx)
	if err := checkAsked(r.Params, options, media); err != nil {
		return nil, err
	}
	middleware.HasRead(ctx)
	queues := r.Params.Wait == nil && r.Params.Offset == nil && options.Learn != session.LearnFalse
	if queues {
		options.Wait = limits.FeedWait
	}
	delivery, err := deliveryOf(ctx, text, options)
	if err != nil {
		return nil, err
	}
	options.Attend = func() func() { return middleware.Attend(ctx) }
	encode, err := h.encoder(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	call := scoreCall{
		sessions: h.Sessions, encode: encode, id: r.ID, text: text, options: options,
		updates: codec.Value(r.Params.Updates), queues: queues, delivery: delivery,
	}
	if media != contract.MediaJSON {
		return writer(func(w http.ResponseWriter) error {
			return call.stream(ctx, answer.NewEventStream(w, media, h.Problems))
		}), nil
	}
	if options.Lines {
		return h.scoreLines(ctx, call)
	}
	summary, err := call.run(ctx, func(session.Chunk) error { return nil })
	if err != nil {
		return nil, err
	}
	return routes.Score200JSONResponse(call.encode.Summary(summary)), nil
}

// checkAsked refuses parameters that would have no effect on the answer.
func checkAsked(p api.ScoreParams, o session.ScoreOptions, media string) error {
	refuse := func(name, found, expected string) error {
		return problem.Field(api.ProblemInvalidParameter, name, found, expected)
	}
	switch {
	case o.Lines && o.LogProbs:
		return refuse("logprobs", "true", "false with unit=line; use tokens=true for the bits "+
			"within a line")
	case o.LogProbs && media == contract.MediaJSON:
		return refuse("logprobs", "true", "false, or Accept: "+contract.MediaNDJSON+" or "+
			contract.MediaEventStream+": only an event stream has log-probabilities")
	case o.Top > 0 && !o.LogProbs:
		return refuse("top_logprobs", strconv.Itoa(o.Top), "0 without logprobs=true")
	case codec.Value(p.Updates) && media == contract.MediaJSON:
		return refuse("updates", "true", "false, or Accept: "+contract.MediaNDJSON+" or "+
			contract.MediaEventStream+": only an event stream has updates")
	case codec.Value(p.Updates) && o.Learn == session.LearnFalse:
		return refuse("updates", "true", "false with learn=false, which updates nothing")
	case !o.Lines && o.Learn == session.LearnUnflagged:
		return refuse("learn", "unflagged", "true or false without unit=line")
	case (!o.Lines || o.Records) && o.TokenBits:
		return refuse("tokens", "true",
			"false without unit=line; use logprobs=true for chunks")
	case !o.Lines && p.TroubleWords != nil:
		return refuse("trouble_words", problem.Quoted(*p.TroubleWords),
			"no value without unit=line")
	case !o.Lines && p.Text != nil:
		return refuse("text", strconv.FormatBool(*p.Text), "no value without unit=line")
	case !o.Records && p.RecordStart != nil:
		return refuse("record_start", problem.Quoted(*p.RecordStart),
			"no value without unit=record")
	case p.Once != nil && (p.Offset != nil || o.Learn == session.LearnFalse):
		return refuse("once", string(*p.Once), "no value with offset or learn=false")
	case p.Threshold != nil && o.Learn != session.LearnUnflagged && !o.Incidents:
		return refuse("threshold", strconv.FormatFloat(*p.Threshold, 'g', -1, 64),
			"no value without learn=unflagged or unit=incident")
	}
	return nil
}

func scoreText(r routes.ScoreRequestObject) (io.Reader, error) {
	if media, _ := contract.MediaTypeOf(r.ContentType); media != contract.MediaJSON {
		return r.Body, nil
	}
	var body api.ScoreText
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, problem.OfJSON(err)
	}
	if body.Text != nil {
		return bytes.NewReader([]byte(*body.Text)), nil
	}
	return bytes.NewReader(body.Base64), nil
}

// deliveryOf returns the delivery for a body that a log shipper sent, or nil for an ordinary text.
// A body with an offset, or with learn=false, is an ordinary text.
func deliveryOf(
	ctx context.Context, text io.Reader, o session.ScoreOptions,
) (*session.Delivery, error) {
	key, ok := middleware.DeliveryOf(ctx)
	if !ok || o.Offset != nil || o.Learn == session.LearnFalse {
		return nil, nil
	}
	body, err := io.ReadAll(text) // the body is already in memory
	if err != nil {
		return nil, problem.OfBody(err)
	}
	d := session.Delivery{Key: key}
	d.Text, _ = intake.Lines(body)
	return &d, nil
}

type scoreCall struct {
	sessions Sessions
	encode   codec.Encoder
	id       string
	text     io.Reader
	options  session.ScoreOptions
	updates  bool
	queues   bool              // a busy session is reported as a full queue, not as a conflict
	delivery *session.Delivery // nil for an ordinary text
}

// learns reports whether the session keeps the text.
func (c scoreCall) learns() bool { return c.options.Learn != session.LearnFalse }

// run feeds or scores the text. An error after the first chunk carries the session's new offset,
// because a learning session keeps the chunks scored before the error.
func (c scoreCall) run(
	ctx context.Context, emit func(session.Chunk) error,
) (session.Summary, error) {
	offset := int64(-1)
	report := func(chunk session.Chunk) error {
		offset = offsetAfter(chunk)
		return emit(chunk)
	}
	who := middleware.CallerOf(ctx)
	var summary session.Summary
	var err error
	if c.delivery != nil {
		if c.options.Updated != nil {
			c.options.Updated = outlived(c.options.Updated)
		}
		summary, err = c.sessions.Deliver(ctx, who, c.id, *c.delivery, c.options, outlived(report))
	} else {
		summary, err = c.sessions.Score(ctx, who, c.id, c.text, c.options, report)
	}
	switch {
	case err == nil:
		return summary, nil
	case c.queues && errors.Is(err, session.ErrBusy):
		return summary, session.ErrQueueFull
	}
	p := problem.Of(err)
	if p.Offset == nil && offset >= 0 && c.learns() {
		p.At(offset)
	}
	return summary, p
}

// outlived wraps emit so that an error of emit does not stop a delivery. The server feeds the rest
// of the delivery even if the client leaves.
func outlived[Event any](emit func(Event) error) func(Event) error {
	var failed error
	return func(e Event) error {
		if failed == nil {
			failed = emit(e)
		}
		return nil
	}
}

func offsetAfter(c session.Chunk) int64 { return c.Total.Bytes + c.PendingBytes }

// stream scores the text and answers with one event per chunk or line, while the text arrives.
func (c scoreCall) stream(ctx context.Context, events *answer.EventStream) error {
	if c.updates {
		c.options.Updated = func(u session.Update) error {
			return events.Send(string(api.EventUpdate), answer.NoID, codec.Update(u))
		}
	}
	summary, err := c.run(ctx, func(chunk session.Chunk) error {
		id := offsetAfter(chunk)
		if !c.learns() { // without learning, the client cannot resume at an offset
			id = answer.NoID
		}
		if c.options.Lines {
			return sendLines(events, c.encode, &chunk, id, false)
		}
		return events.Send(string(api.EventChunk), id, c.encode.Chunk(chunk))
	})
	if err != nil {
		return events.Fail(ctx, err)
	}
	for _, l := range []*session.Line{summary.Last, summary.Rest} {
		if l == nil {
			continue
		}
		byLine := c.options.Learn == session.LearnUnflagged
		if err := events.Send(string(api.EventLine), answer.NoID,
			c.encode.Line(*l, byLine)); err != nil {
			return err
		}
	}
	return events.Send(string(api.EventSummary), summary.Offset, c.encode.Summary(summary))
}

// told returns the records and lines that end in a chunk. The answer has one event for each.
func told(c *session.Chunk) []session.Line { return append(c.Records, c.Lines...) }

// sendLines sends an event for each record and line that ends in a chunk. The id of the last event
// is end. The earlier events have the same id or, with parameter ends, the ends of their lines.
func sendLines(
	events *answer.EventStream, encode codec.Encoder, chunk *session.Chunk, end int64, ends bool,
) error {
	all := told(chunk)
	for i, l := range all {
		id := end
		if ends && i < len(all)-1 {
			id = l.Offset + l.Bytes
		}
		if err := events.Send(string(api.EventLine), id, encode.Line(l, chunk.ByLine)); err != nil {
			return err
		}
	}
	return nil
}
