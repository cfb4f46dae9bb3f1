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

	// MediaMetrics is the text format of Prometheus, which clients get that ask for no other.
	MediaMetrics = "text/plain; version=0.0.4; charset=utf-8"
)

// HasBody reports whether the request brings a body, as far as its headers tell.
func HasBody(r *http.Request) bool { return r.ContentLength != 0 }

// MediaTypeOf parses a Content-Type. If that is empty or cannot be parsed, the media type is "".
func MediaTypeOf(contentType string) (media string, params map[string]string) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil
	}
	return media, params
}

// IsJSONBody reports whether the request's body says it is JSON.
func IsJSONBody(r *http.Request) bool {
	media, _ := MediaTypeOf(r.Header.Get("Content-Type"))
	return media == MediaJSON
}
