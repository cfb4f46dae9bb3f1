package handler

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// ExportLogs implements POST /v1/logs. The answer has the encoding of the request, as OTLP
// requires, and ignores the header Accept.
func (h *Handlers) ExportLogs(
	ctx context.Context, r routes.ExportLogsRequestObject,
) (routes.ExportLogsResponseObject, error) {
	media, _ := contract.MediaTypeOf(r.ContentType)
	read := intake.OTLPJSON
	if media == contract.MediaProtobuf {
		read = intake.OTLP
	}
	refused, err := h.feedLogs(ctx, r.Body, middleware.LogMemory, read)
	if err != nil {
		return nil, err
	}
	var answer api.ExportLogsResponse
	if refused.records > 0 {
		answer.PartialSuccess = &api.LogsPartialSuccess{
			RejectedLogRecords: strconv.Itoa(refused.records),
			ErrorMessage:       problem.Of(refused.why).Error(),
		}
	}
	if media != contract.MediaProtobuf {
		return routes.ExportLogs200JSONResponse(answer), nil
	}
	return writer(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", contract.MediaProtobuf)
		_, err := w.Write(inProtobuf(refused))
		return err
	}), nil
}

func inProtobuf(refused refusal) []byte {
	if refused.records == 0 {
		return nil
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType),
		uint64(refused.records))
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType),
		problem.Of(refused.why).Error())
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}
