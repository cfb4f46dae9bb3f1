package handler

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// GetSnapshot implements GET /v1/sessions/{id}/snapshot. If an error occurs after the answer has
// begun, GetSnapshot closes the connection, so that a partial file does not look complete.
func (h *Handlers) GetSnapshot(
	ctx context.Context, r routes.GetSnapshotRequestObject,
) (routes.GetSnapshotResponseObject, error) {
	wait, err := codec.DecodeWait(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	return writer(func(w http.ResponseWriter) error {
		file := answer.NewFile(ctx, w, r.ID+".tar")
		part := func(p session.Part) {
			file.IsPart(r.ID+".part.tar", partHeaders(p))
		}
		return h.Sessions.Export(ctx, middleware.CallerOf(ctx), r.ID, wait, file, part)
	}), nil
}

// partHeaders returns headers that state which bytes of a damaged session the file holds, and what
// the damage is.
func partHeaders(p session.Part) map[string]string {
	damage := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' { // headers are ASCII
			return ' '
		}
		return r
	}, problem.Clipped(p.Err.Error(), limits.DetailCharsMax))
	return map[string]string{
		"Lmserve-Part":   fmt.Sprintf("bytes %d-%d/%d", p.Start, p.End-1, p.Known),
		"Lmserve-Damage": damage,
	}
}

// ImportSession implements POST /v1/sessions/import.
func (h *Handlers) ImportSession(
	ctx context.Context, r routes.ImportSessionRequestObject,
) (routes.ImportSessionResponseObject, error) {
	var name string
	if r.Params.Name != nil {
		var err error
		if name, err = codec.DecodeName("name", *r.Params.Name); err != nil {
			return nil, err
		}
	}
	info, err := h.Sessions.Import(ctx, middleware.CallerOf(ctx), r.Body, name)
	if err != nil {
		return nil, err
	}
	return routes.ImportSession201JSONResponse{
		Body:    codec.EncodeSession(info),
		Headers: routes.ImportSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}
