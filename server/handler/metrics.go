package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Metrics implements GET /metrics. The numbers are of the sessions of all keys.
func (h *Handlers) Metrics(
	ctx context.Context, _ routes.MetricsRequestObject,
) (routes.MetricsResponseObject, error) {
	if who := middleware.CallerOf(ctx); who.Key != "" && !who.Admin {
		return nil, session.ErrAdminOnly
	}
	return metrics{h.Counted, middleware.RequestOf(ctx)}, nil
}

// metrics answers a request with what was counted, in the format and the encoding that the request
// asks for.
type metrics struct {
	counted http.Handler
	request *http.Request
}

// VisitMetricsResponse implements routes.MetricsResponseObject.
func (m metrics) VisitMetricsResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", contract.MediaMetrics)
	w.Header().Set("Cache-Control", "no-store")
	m.counted.ServeHTTP(w, m.request)
	return nil
}
