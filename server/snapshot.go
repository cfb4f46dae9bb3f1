package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lmserve/lmserve/api"
)

// GetSnapshot implements GET /v1/sessions/{id}/snapshot.
func (h *handlers) GetSnapshot(ctx context.Context, r api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	return snapshotFile{server: h.Server, ctx: ctx, id: r.ID}, nil
}

// snapshotFile answers with an export. An error after its beginning cuts the connection: a part of a file must not look like the whole.
type snapshotFile struct {
	server *Server
	ctx    context.Context
	id     string
}

var _ api.GetSnapshotResponseObject = snapshotFile{}

// VisitGetSnapshotResponse implements api.GetSnapshotResponseObject.
func (s snapshotFile) VisitGetSnapshotResponse(w http.ResponseWriter) error {
	return s.server.sessions.Export(s.ctx, callerOf(s.ctx).Caller, s.id, &fileWriter{ResponseWriter: w, name: s.id + ".safetensors.zst"})
}

// fileWriter begins the answer with the file's first byte, so that an error before it has a status of its own.
type fileWriter struct {
	http.ResponseWriter
	name  string
	begun bool
}

func (w *fileWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		h := w.Header()
		h.Set("Content-Type", mediaZstd)
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", w.name))
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// ImportSession implements POST /v1/sessions/import.
func (h *handlers) ImportSession(ctx context.Context, r api.ImportSessionRequestObject) (api.ImportSessionResponseObject, error) {
	info, err := h.sessions.Import(ctx, callerOf(ctx).Caller, r.Body)
	if err != nil {
		return nil, err
	}
	return api.ImportSession201JSONResponse{
		Body:    encodeSession(info),
		Headers: api.ImportSession201ResponseHeaders{Location: sessionPath(info.ID)},
	}, nil
}
