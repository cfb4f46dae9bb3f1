package handler

import (
	"context"

	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/routes"
)

// PushLoki implements POST /loki/api/v1/push. It feeds all valid records before it reports the
// invalid ones as a problem.
func (h *Handlers) PushLoki(
	ctx context.Context, r routes.PushLokiRequestObject,
) (routes.PushLokiResponseObject, error) {
	read := intake.LokiJSON
	if media, _ := contract.MediaTypeOf(r.ContentType); media == contract.MediaProtobuf {
		read = func(body []byte, t *intake.Template) (*intake.Batch, error) {
			taken, err := h.Memory.Take(ctx, intake.SnappyBytes(body, limits.LogBodyBytesMax))
			if err != nil {
				return nil, err
			}
			defer taken.Keep(0)
			plain, err := intake.Snappy(body, limits.LogBodyBytesMax)
			if err != nil {
				return nil, err
			}
			return intake.Loki(plain, t)
		}
	}
	refused, err := h.feedLogs(ctx, r.Body, read)
	if err == nil && refused.records > 0 {
		err = refused.why
	}
	if err != nil {
		return nil, err
	}
	return routes.PushLoki204Response{}, nil
}
