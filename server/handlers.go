package server

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
)

// handlers implements the operations of the contract. Each decodes, calls one method of the session manager, and encodes.
type handlers struct{ *Server }

var _ api.StrictServerInterface = (*handlers)(nil)

// CreateSession implements POST /v1/sessions.
func (h *handlers) CreateSession(ctx context.Context, r api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	var request session.CreateRequest
	if r.Body != nil {
		var err error
		if request, err = decodeCreate(*r.Body); err != nil {
			return nil, err
		}
	}
	info, err := h.sessions.Create(ctx, callerOf(ctx).Caller, request)
	if err != nil {
		return nil, err
	}
	return api.CreateSession201JSONResponse{
		Body:    encodeSession(info),
		Headers: api.CreateSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}

// sessionPath is the path of a session.
func sessionPath(id string) string { return "/v1/sessions/" + id }

// ForkSession implements POST /v1/sessions/{id}/fork.
func (h *handlers) ForkSession(ctx context.Context, r api.ForkSessionRequestObject) (api.ForkSessionResponseObject, error) {
	var request session.ForkRequest
	if r.Body != nil {
		labels, err := decodeLabels(r.Body.Labels)
		if err != nil {
			return nil, err
		}
		request = session.ForkRequest{AtOffset: r.Body.AtOffset, Labels: labels, TTL: seconds(r.Body.TTLSeconds), History: string(value(r.Body.History))}
	}
	info, err := h.sessions.Fork(ctx, callerOf(ctx).Caller, r.ID, request)
	if err != nil {
		return nil, err
	}
	return api.ForkSession201JSONResponse{
		Body:    encodeSession(info),
		Headers: api.ForkSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}

// decodeCreate reads what validation against the contract has let through.
func decodeCreate(r api.SessionRequest) (session.CreateRequest, error) {
	request := session.CreateRequest{Seed: r.Seed}
	if r.Settings != nil {
		request.Settings = decodeSettings(*r.Settings)
	}
	request.TTL, request.History = seconds(r.TTLSeconds), string(value(r.History))
	var err error
	request.Labels, err = decodeLabels(r.Labels)
	return request, err
}

func seconds(n *int64) time.Duration { return time.Duration(value(n)) * time.Second }

// decodeLabels checks the length of the names: OpenAPI 3.0 cannot say it.
func decodeLabels(labels *api.Labels) (map[string]string, error) {
	for key := range value(labels) {
		if n := utf8.RuneCountInString(key); n < 1 || n > LabelKeyCharsMax {
			return nil, fieldProblem(api.ProblemInvalidField, fieldPath([]string{"labels", key}),
				fmt.Sprintf("a name of %d characters", n), fmt.Sprintf("1 to %d characters", LabelKeyCharsMax))
		}
	}
	return value(labels), nil
}

// ListSessions implements GET /v1/sessions.
func (h *handlers) ListSessions(ctx context.Context, r api.ListSessionsRequestObject) (api.ListSessionsResponseObject, error) {
	limit := ListLimitDefault
	if r.Params.Limit != nil {
		limit = *r.Params.Limit
	}
	page, next, err := h.sessions.List(callerOf(ctx).Caller, value(r.Params.After), limit)
	if err != nil {
		return nil, err
	}
	list := api.ListSessions200JSONResponse{Sessions: mapped(page, encodeSession)}
	if next != "" {
		list.Next = &next
	}
	return list, nil
}

// GetSession implements GET /v1/sessions/{id}.
func (h *handlers) GetSession(ctx context.Context, r api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	info, err := h.sessions.Get(callerOf(ctx).Caller, r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetSession200JSONResponse(encodeSession(info)), nil
}

// DeleteSession implements DELETE /v1/sessions/{id}.
func (h *handlers) DeleteSession(ctx context.Context, r api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	if err := h.sessions.Delete(callerOf(ctx).Caller, r.ID); err != nil {
		return nil, err
	}
	return api.DeleteSession204Response{}, nil
}

// ListModels implements GET /v1/models.
func (h *handlers) ListModels(context.Context, api.ListModelsRequestObject) (api.ListModelsResponseObject, error) {
	return api.ListModels200JSONResponse{Object: api.ObjectList, Data: []api.Model{encodeModel(h.sessions.Model())}}, nil
}

// Health implements GET /healthz.
func (h *handlers) Health(context.Context, api.HealthRequestObject) (api.HealthResponseObject, error) {
	return api.Health200JSONResponse{Status: api.StatusOK}, nil
}

// Ready implements GET /readyz.
func (h *handlers) Ready(context.Context, api.ReadyRequestObject) (api.ReadyResponseObject, error) {
	if err := h.sessions.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrStore, err)
	}
	if !h.ready.Load() {
		return nil, session.ErrDraining
	}
	status := api.ServiceStatus{Status: api.StatusReady}
	if ring := h.options.Keys; ring != nil && ring.Stale() != nil {
		stale := api.KeysStale
		status.Keys = &stale
	}
	return api.Ready200JSONResponse(status), nil
}

// Contract implements GET /openapi.yaml.
func (h *handlers) Contract(context.Context, api.ContractRequestObject) (api.ContractResponseObject, error) {
	return api.Contract200ApplicationYamlResponse{Body: bytes.NewReader(api.YAML), ContentLength: int64(len(api.YAML))}, nil
}

// value is what p points to, or zero if it points to nothing.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
