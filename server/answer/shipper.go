package answer

import (
	"cmp"
	"context"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lmserve/lmserve/api"
)

type shipperKey struct{}

// ShipperForm says in which form a log shipper reads problems.
type ShipperForm struct {
	OTLP     bool // a google.rpc.Status
	Protobuf bool // protobuf instead of JSON
}

// WithShipperForm returns a context for a request whose problems a log shipper reads.
func WithShipperForm(ctx context.Context, f ShipperForm) context.Context {
	return context.WithValue(ctx, shipperKey{}, f)
}

func shipperForm(ctx context.Context) (f ShipperForm, ok bool) {
	f, ok = ctx.Value(shipperKey{}).(ShipperForm)
	return f, ok
}

// grpcCodes maps HTTP statuses to google.rpc.Code; all others map to unknown (2).
var grpcCodes = map[int]int{
	http.StatusBadRequest: 3, http.StatusUnauthorized: 16, http.StatusForbidden: 7,
	http.StatusTooManyRequests: 8, http.StatusServiceUnavailable: 14,
}

// document changes a problem's status to one that shippers understand: they retry after 429 and 503
// and give up after others.
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

// status encodes a problem as a google.rpc.Status in protobuf.
func status(doc api.Problem) []byte {
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType),
		uint64(*doc.Code))
	return protowire.AppendString(protowire.AppendTag(body, 2, protowire.BytesType), *doc.Message)
}
