package answer

import (
	"cmp"
	"context"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lmserve/lmserve/api"
)

type shipperKey struct{}

// ShipperForm says in which format a log shipper expects problem documents. A log shipper is a
// program that sends logs to the server.
type ShipperForm struct {
	OTLP     bool // a google.rpc.Status
	Protobuf bool // protobuf instead of JSON
}

// WithShipperForm returns a context for a request of a log shipper, which expects problem documents
// in the format f.
func WithShipperForm(ctx context.Context, f ShipperForm) context.Context {
	return context.WithValue(ctx, shipperKey{}, f)
}

func shipperForm(ctx context.Context) (f ShipperForm, ok bool) {
	f, ok = ctx.Value(shipperKey{}).(ShipperForm)
	return f, ok
}

// grpcCodes maps HTTP statuses to google.rpc.Code. All other statuses mean unknown (2).
var grpcCodes = map[int]int{
	http.StatusBadRequest: 3, http.StatusUnauthorized: 16, http.StatusForbidden: 7,
	http.StatusTooManyRequests: 8, http.StatusServiceUnavailable: 14,
}

// document changes a problem's status to one that log shippers understand. They retry after the
// statuses 429 and 503, and give up after other errors.
func (f ShipperForm) document(doc api.Problem) api.Problem {
	switch doc.Status {
	case http.StatusRequestTimeout, http.StatusInsufficientStorage,
		http.StatusInternalServerError: // for instance a temporary failure of the store
		doc.Status = http.StatusServiceUnavailable
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		doc.Status = http.StatusBadRequest
	}
	if f.OTLP {
		code := cmp.Or(grpcCodes[doc.Status], 2)
		message := doc.Title
		if doc.Detail != nil {
			message += ": " + *doc.Detail
		}
		doc.Code, doc.Message = &code, &message
	}
	return doc
}

func status(doc api.Problem) []byte {
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType),
		uint64(*doc.Code))
	return protowire.AppendString(protowire.AppendTag(body, 2, protowire.BytesType), *doc.Message)
}
