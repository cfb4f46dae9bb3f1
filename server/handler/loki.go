package handler

import (
	"context"

	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// PushLoki implements POST /loki/api/v1/push. If some records are invalid, it feeds the valid
// records and then answers with an error.
func (h *Handlers) PushLoki(
	ctx context.Context, r routes.PushLokiRequestObject,
) (routes.PushLokiResponseObject, error) {
	read, need := intake.LokiJSON, middleware.LogMemory
	if media, _ := contract.MediaTypeOf(r.ContentType); media == contract.MediaProtobuf {
		read = func(body []byte, t *intake.Template) (*intake.Batch, error) {
			plain, err := intake.Snappy(body, limits.LogBodyBytesMax)
			if err != nil {
				return nil, err
			}
			return intake.Loki(plain, t)
		}
		need = func(begin []byte, bytes int64) int64 {
			return bytes +
				limits.LogPlainFactor*intake.SnappyBytes(begin, limits.LogBodyBytesMax)
		}
	}
	refused, err := h.feedLogs(ctx, r.Body, need, read)
	if err == nil && refused.records > 0 {
		err = refused.why
	}
	if err != nil {
		return nil, err
	}
	return routes.PushLoki204Response{}, nil
}
