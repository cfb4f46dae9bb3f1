package handler

import (
	"context"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// ListIncidents implements GET /v1/sessions/{id}/incidents.
func (h *Handlers) ListIncidents(
	ctx context.Context, r routes.ListIncidentsRequestObject,
) (routes.ListIncidentsResponseObject, error) {
	list, err := h.Sessions.Incidents(ctx, middleware.CallerOf(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return routes.ListIncidents200JSONResponse(codec.EncodeIncidents(list)), nil
}

// GiveFeedback implements POST /v1/sessions/{id}/feedback.
func (h *Handlers) GiveFeedback(
	ctx context.Context, r routes.GiveFeedbackRequestObject,
) (routes.GiveFeedbackResponseObject, error) {
	list, err := h.Sessions.GiveFeedback(ctx, middleware.CallerOf(ctx), r.ID,
		session.FeedbackRequest{
			Incident: r.Body.Incident, Verdict: string(codec.Value(r.Body.Verdict)),
		})
	if err != nil {
		return nil, err
	}
	return routes.GiveFeedback200JSONResponse(codec.EncodeIncidents(list)), nil
}
