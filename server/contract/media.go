package contract

import (
	"mime"
	"net/http"
)

// The media types of the contract.
const (
	MediaJSON        = "application/json"
	MediaProblem     = "application/problem+json"
	MediaNDJSON      = "application/x-ndjson"
	MediaEventStream = "text/event-stream"
	MediaOctetStream = "application/octet-stream"
	MediaTar         = "application/x-tar"
	MediaText        = "text/plain"
	MediaMsgpack     = "application/msgpack"
	MediaProtobuf    = "application/x-protobuf"

	// MediaMetrics is the Prometheus text format, which clients get by default.
	MediaMetrics = "text/plain; version=0.0.4; charset=utf-8"
)

// HasBody reports whether the request's headers announce a body.
func HasBody(r *http.Request) bool { return r.ContentLength != 0 }

// MediaTypeOf parses a Content-Type. The media type is "" if the header is empty or malformed.
func MediaTypeOf(contentType string) (media string, params map[string]string) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil
	}
	return media, params
}

// IsJSONBody reports whether the request declares a JSON body.
func IsJSONBody(r *http.Request) bool {
	media, _ := MediaTypeOf(r.Header.Get("Content-Type"))
	return media == MediaJSON
}
