package codec

import (
	"strconv"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeCommit reads from the request's body or headers which part of the batch the session learns.
// If the session learns, the batch may wait for a busy session as long as the server allows.
func DecodeCommit(
	request *session.BatchRequest, body api.OpenAICompletionRequest, p api.CreateCompletionParams,
) error {
	commit, err := oneOf("commit", body.Commit, p.XCommit, func(c api.Commit) string {
		return strconv.Quote(string(c))
	})
	if err != nil {
		return err
	}
	offset, err := oneOf("offset", body.Offset, p.XSessionOffset, func(n int64) string {
		return strconv.FormatInt(n, 10)
	})
	if err != nil {
		return err
	}
	request.Commit, request.Offset = string(Value(commit)), offset
	if request.Commits() {
		request.Wait = session.WaitMax
	}
	return nil
}

// oneOf returns the value that a request gives in a field or in the equivalent header. It refuses a
// request whose field and header differ.
func oneOf[T comparable](name string, field, header *T, quoted func(T) string) (*T, error) {
	if field == nil {
		return header, nil
	}
	if header != nil && *header != *field {
		return nil, problem.Field(api.ProblemInvalidField, name, quoted(*field),
			quoted(*header)+", the same value as in the header")
	}
	return field, nil
}
