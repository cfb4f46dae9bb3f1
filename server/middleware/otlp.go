package middleware

import (
	"net/http"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// These are the routes of log shippers.
const (
	RouteOTLP = "/v1/logs"
	RouteLoki = "/loki/api/v1/push"
)

// OTLP marks requests of log shippers, so that errors have statuses that log shippers understand.
// Errors of the OTLP route also have OTLP's format. OTLP runs before any middleware that may refuse
// a request.
func OTLP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == RouteOTLP || r.URL.Path == RouteLoki {
			media, _ := contract.MediaTypeOf(r.Header.Get("Content-Type"))
			form := answer.ShipperForm{
				OTLP:     r.URL.Path == RouteOTLP,
				Protobuf: r.URL.Path == RouteOTLP && media == contract.MediaProtobuf,
			}
			r = r.WithContext(answer.WithShipperForm(r.Context(), form))
		}
		next.ServeHTTP(w, r)
	})
}
