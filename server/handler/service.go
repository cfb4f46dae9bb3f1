package handler

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/routes"
)

// ListModels implements GET /v1/models.
func (h *Handlers) ListModels(
	context.Context, routes.ListModelsRequestObject,
) (routes.ListModelsResponseObject, error) {
	list := routes.ListModels200JSONResponse{Object: api.ObjectList}
	for _, m := range h.Sessions.Models() {
		list.Data = append(list.Data, codec.EncodeModel(m))
	}
	return list, nil
}

// Health implements GET /healthz.
func (h *Handlers) Health(
	context.Context, routes.HealthRequestObject,
) (routes.HealthResponseObject, error) {
	return routes.Health200JSONResponse{Status: api.StatusOK}, nil
}

// Ready implements GET /readyz.
func (h *Handlers) Ready(
	context.Context, routes.ReadyRequestObject,
) (routes.ReadyResponseObject, error) {
	if !h.TakesWork() {
		return nil, session.ErrDraining
	}
	status := api.ServiceStatus{Status: api.StatusReady}
	if h.Keys != nil && h.Keys.Stale() != nil {
		status.Keys = new(api.KeysStale)
	}
	if h.Sessions.DiskAlarm() != nil {
		status.Disk = new(api.DiskFull)
	}
	return routes.Ready200JSONResponse(status), nil
}

// Contract implements GET /openapi.yaml.
func (h *Handlers) Contract(
	context.Context, routes.ContractRequestObject,
) (routes.ContractResponseObject, error) {
	return routes.Contract200ApplicationYamlResponse{
		Body:          bytes.NewReader(api.YAML),
		ContentLength: int64(len(api.YAML)),
	}, nil
}
