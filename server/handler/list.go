package handler

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// ListSessions implements GET /v1/sessions. It writes a page of sessions to a temporary file before
// sending it, because the JSON may have megabytes and the client may be slow.
func (h *Handlers) ListSessions(
	ctx context.Context, r routes.ListSessionsRequestObject,
) (routes.ListSessionsResponseObject, error) {
	made, err := spool.New()
	if err != nil {
		return nil, session.SpoolError(err)
	}
	if err := h.list(ctx, codec.DecodeListing(r.Params), made); err != nil {
		made.Close()
		return nil, session.SpoolError(err)
	}
	return writer(func(w http.ResponseWriter) error {
		defer made.Close()
		w.Header().Set("Content-Type", contract.MediaJSON)
		w.WriteHeader(http.StatusOK)
		return made.CopyTo(w)
	}), nil
}

func (h *Handlers) list(ctx context.Context, l codec.Listing, made *spool.Spool) error {
	taken, err := h.Memory.Lists.Take(ctx, limits.ListSessionBytes*int64(l.Limit))
	if err != nil {
		return err
	}
	defer taken.Keep(0)
	who := middleware.CallerOf(ctx)
	page, next, err := h.Sessions.List(who, l.After, l.Limit, l.Labels...)
	if err != nil {
		return err
	}
	return made.Fill(func(w io.Writer) error { return writeList(w, page, next) })
}

// writeList writes a page as an api.SessionList. It encodes one session at a time.
func writeList(w io.Writer, page []session.Info, next string) error {
	if _, err := io.WriteString(w, `{"sessions":[`); err != nil {
		return err
	}
	for i := range page {
		text, err := json.Marshal(codec.EncodeSession(page[i]))
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte{','}, text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	end := "]}\n"
	if next != "" {
		id, err := json.Marshal(next)
		if err != nil {
			return err
		}
		end = `],"next":` + string(id) + "}\n"
	}
	_, err := io.WriteString(w, end)
	return err
}
