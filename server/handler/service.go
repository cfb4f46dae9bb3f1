package handler

import (
	"bytes"
	"context"
	"fmt"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/codec"
)

// ListModels implements GET /v1/models.
func (h *Handlers) ListModels(
	context.Context, api.ListModelsRequestObject,
) (api.ListModelsResponseObject, error) {
	list := api.ListModels200JSONResponse{Object: api.ObjectList}
	for _, m := range h.Sessions().Models() {
		list.Data = append(list.Data, codec.EncodeModel(m))
	}
	return list, nil
}

// Health implements GET /healthz.
func (h *Handlers) Health(
	context.Context, api.HealthRequestObject,
) (api.HealthResponseObject, error) {
	return api.Health200JSONResponse{Status: api.StatusOK}, nil
}

// Ready implements GET /readyz.
func (h *Handlers) Ready(
	context.Context, api.ReadyRequestObject,
) (api.ReadyResponseObject, error) {
	if err := h.Sessions().Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrStore, err)
	}
	if !h.TakesWork() {
		return nil, session.ErrDraining
	}
	status := api.ServiceStatus{Status: api.StatusReady}
	if h.Keys != nil && h.Keys.Stale() != nil {
		stale := api.KeysStale
		status.Keys = &stale
	}
	if h.Sessions().DiskAlarm() != nil {
		full := api.DiskFull
		status.Disk = &full
	}
	return api.Ready200JSONResponse(status), nil
}

// Contract implements GET /openapi.yaml.
func (h *Handlers) Contract(
	context.Context, api.ContractRequestObject,
) (api.ContractResponseObject, error) {
	return api.Contract200ApplicationYamlResponse{
		Body:          bytes.NewReader(api.YAML),
		ContentLength: int64(len(api.YAML)),
	}, nil
}
