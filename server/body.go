package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// acceptBody refuses bodies of kinds that the contract does not list for the operation. A body without a Content-Type is taken for
// application/octet-stream, as `curl -T` sends it. Operations without a body ignore one.
func (s *Server) acceptBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := s.contract.operation(r)
		if len(op.accepts) > 0 && hasBody(r) {
			if p := checkBodyKind(r, op.accepts); p != nil {
				s.respondError(w, r, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkBodyKind holds a request's body headers against the media types that are accepted. It gives nil if they fit.
func checkBodyKind(r *http.Request, accepts []string) *problem {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fieldProblem(api.ProblemUnsupportedMediaType, "Content-Encoding", quoted(coding), "none")
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = mediaOctetStream
		r.Header.Set("Content-Type", header)
	}
	media, params := mediaTypeOf(header)
	if !slices.Contains(accepts, media) {
		return fieldProblem(api.ProblemUnsupportedMediaType, "Content-Type", quoted(header), oneOf(accepts))
	}
	if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return fieldProblem(api.ProblemUnsupportedMediaType, "Content-Type", "the charset "+quoted(charset), "utf-8 or us-ascii")
	}
	return nil
}

// limitBody bounds the size of bodies: those that say how long they are before a byte is read, the others as they come in.
func (s *Server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hasBody(r) {
			limit := s.bodyBytesMax(r)
			if r.ContentLength > limit {
				s.respondError(w, r, fieldProblem(api.ProblemBodyTooLarge, "Content-Length",
					strconv.FormatInt(r.ContentLength, 10), "at most "+strconv.FormatInt(limit, 10)))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
		}
		next.ServeHTTP(w, r)
	})
}

// bodyBytesMax is what a body may have.
func (s *Server) bodyBytesMax(r *http.Request) int64 {
	switch {
	case isJSONBody(r):
		return JSONBodyBytesMax
	case s.contract.operation(r).takesFile():
		return ImportBodyBytesMax
	}
	return s.options.ScoreBodyBytesMax
}

// isJSONBody reports whether the request's body says it is JSON.
func isJSONBody(r *http.Request) bool {
	media, _ := mediaTypeOf(r.Header.Get("Content-Type"))
	return media == mediaJSON
}
