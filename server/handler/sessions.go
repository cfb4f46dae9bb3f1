package handler

import (
	"context"

	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// CreateSession implements POST /v1/sessions.
func (h *Handlers) CreateSession(
	ctx context.Context, r routes.CreateSessionRequestObject,
) (routes.CreateSessionResponseObject, error) {
	request, err := codec.DecodeCreate(r.Body)
	if err != nil {
		return nil, err
	}
	info, err := h.Sessions.Create(ctx, middleware.CallerOf(ctx), request)
	if err != nil {
		return nil, err
	}
	return routes.CreateSession201JSONResponse{
		Body:    codec.EncodeSession(info),
		Headers: routes.CreateSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}

// PutSession implements PUT /v1/sessions/{name}.
func (h *Handlers) PutSession(
	ctx context.Context, r routes.PutSessionRequestObject,
) (routes.PutSessionResponseObject, error) {
	name, err := codec.DecodeName("id", r.ID)
	if err != nil {
		return nil, err
	}
	request, err := codec.DecodeCreate(r.Body)
	if err != nil {
		return nil, err
	}
	info, made, err := h.Sessions.Put(ctx, middleware.CallerOf(ctx), name, request)
	if err != nil {
		return nil, err
	}
	if !made {
		return routes.PutSession200JSONResponse(codec.EncodeSession(info)), nil
	}
	return routes.PutSession201JSONResponse{
		Body:    codec.EncodeSession(info),
		Headers: routes.PutSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}

// PatchSession implements PATCH /v1/sessions/{id}.
func (h *Handlers) PatchSession(
	ctx context.Context, r routes.PatchSessionRequestObject,
) (routes.PatchSessionResponseObject, error) {
	request, err := codec.DecodePatch(*r.Body)
	if err != nil {
		return nil, err
	}
	info, err := h.Sessions.Patch(ctx, middleware.CallerOf(ctx), r.ID, request)
	if err != nil {
		return nil, err
	}
	return routes.PatchSession200JSONResponse(codec.EncodeSession(info)), nil
}

// ForkSession implements POST /v1/sessions/{id}/fork.
func (h *Handlers) ForkSession(
	ctx context.Context, r routes.ForkSessionRequestObject,
) (routes.ForkSessionResponseObject, error) {
	request, err := codec.DecodeFork(r.Body)
	if err != nil {
		return nil, err
	}
	info, err := h.Sessions.Fork(ctx, middleware.CallerOf(ctx), r.ID, request)
	if err != nil {
		return nil, err
	}
	return routes.ForkSession201JSONResponse{
		Body:    codec.EncodeSession(info),
		Headers: routes.ForkSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}

// GetSession implements GET /v1/sessions/{id}.
func (h *Handlers) GetSession(
	ctx context.Context, r routes.GetSessionRequestObject,
) (routes.GetSessionResponseObject, error) {
	info, err := h.Sessions.Get(middleware.CallerOf(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return routes.GetSession200JSONResponse(codec.EncodeSession(info)), nil
}

// DeleteSession implements DELETE /v1/sessions/{id}.
func (h *Handlers) DeleteSession(
	ctx context.Context, r routes.DeleteSessionRequestObject,
) (routes.DeleteSessionResponseObject, error) {
	if err := h.Sessions.Delete(middleware.CallerOf(ctx), r.ID); err != nil {
		return nil, err
	}
	return routes.DeleteSession204Response{}, nil
}
