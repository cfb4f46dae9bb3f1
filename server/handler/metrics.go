package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Metrics implements GET /metrics. The metrics cover the sessions of all keys.
func (h *Handlers) Metrics(
	ctx context.Context, _ routes.MetricsRequestObject,
) (routes.MetricsResponseObject, error) {
	if who := middleware.CallerOf(ctx); who.Key != "" && !who.Admin {
		return nil, session.ErrAdminOnly
	}
	asked := middleware.RequestOf(ctx)
	return writer(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", contract.MediaMetrics)
		w.Header().Set("Cache-Control", "no-store")
		h.Counted.ServeHTTP(w, asked)
		return nil
	}), nil
}
