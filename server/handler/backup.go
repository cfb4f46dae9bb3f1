package handler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

const backupBufferBytes = 256 << 10

// Backup implements GET /v1/admin/backup. An error after the answer has begun cuts the connection.
func (h *Handlers) Backup(
	ctx context.Context, r routes.BackupRequestObject,
) (routes.BackupResponseObject, error) {
	id, from := "", int64(0)
	if r.Params.IfMatch != nil {
		id = strings.Trim(*r.Params.IfMatch, `"`)
		if r.Params.Range != nil {
			// The contract's pattern ensures that the text is a number.
			from, _ = strconv.ParseInt(strings.Trim(*r.Params.Range, "bytes=-"), 10, 64)
		}
	}
	b, err := h.Sessions.Backup(ctx, middleware.CallerOf(ctx), id)
	if err != nil {
		return nil, err
	}
	if from >= b.Size {
		_ = b.Close() // an error of Close is harmless: nothing was read
		return nil, problem.Field(api.ProblemInvalidParameter, "Range", *r.Params.Range,
			fmt.Sprintf("bytes=0- to bytes=%d-", b.Size-1))
	}
	if _, err := b.Seek(from, io.SeekStart); err != nil {
		_ = b.Close()
		return nil, err
	}
	partial := id != "" && r.Params.Range != nil
	return writer(func(w http.ResponseWriter) error { return sendBackup(w, b, from, partial) }), nil
}

// sendBackup sends a backup from byte `from` on, and closes it.
func sendBackup(w http.ResponseWriter, b *session.Backup, from int64, partial bool) error {
	defer b.Close()
	h := w.Header()
	h.Set("Content-Type", contract.MediaTar)
	h.Set("Content-Disposition", `attachment; filename="lmserve-backup.tar"`)
	h.Set("Content-Length", strconv.FormatInt(b.Size-from, 10))
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", strconv.Quote(b.ID))
	status := http.StatusOK
	if partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, b.Size-1, b.Size))
	}
	w.WriteHeader(status)
	_, err := io.CopyBuffer(onlyWriter{w}, onlyReader{b}, make([]byte, backupBufferBytes))
	return err
}

// onlyWriter and onlyReader hide the methods ReadFrom and WriteTo, so that io.CopyBuffer uses its
// buffer. Each write of a buffer then gets a new deadline.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }
