package handler

import (
	"bytes"
	"context"
	"net/http"

	"github.com/lmserve/lmserve/internal/session"
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
	var text bytes.Buffer
	if err := h.Counted(&text); err != nil {
		return nil, err
	}
	return metricsText(text.Bytes()), nil
}

// metricsText is metrics in Prometheus' text format.
type metricsText []byte

// VisitMetricsResponse implements routes.MetricsResponseObject.
func (t metricsText) VisitMetricsResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", contract.MediaMetrics)
	w.Header().Set("Cache-Control", "no-store")
	_, err := w.Write(t)
	return err
}
