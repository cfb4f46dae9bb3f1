package problem

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/limits"
)

// Early makes the problem document for a request that net/http refuses before it calls a handler.
// The reason begins with net/http's status, such as "400 Bad Request". Details may follow after a
// colon.
func Early(reason string) *Problem {
	status, why, _ := strings.Cut(reason, ": ")
	code, _, _ := strings.Cut(status, " ")
	switch code {
	case "431":
		return Field(api.ProblemHeadersTooLarge, "headers", "too many bytes",
			"at most "+strconv.Itoa(limits.HeaderBytesMax)+" bytes of request line and headers")
	case "501":
		return Field(api.ProblemUnsupportedTransferEncoding, "Transfer-Encoding", "an unknown "+
			"encoding",
			"none or chunked")
	}
	if why == "" && code == "400" {
		why = "the request line, a header or the body's length violates RFC 9112"
	}
	return New(api.ProblemMalformedRequest, Clipped(cmp.Or(why, status), limits.DetailCharsMax))
}
