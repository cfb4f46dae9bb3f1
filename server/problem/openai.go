package problem

import (
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// InOpenAIForm gives a problem document the member that clients of OpenAI's interface read. A field
// that cannot be used is a bad request there.
func InOpenAIForm(doc api.Problem) api.Problem {
	if doc.Status == http.StatusUnprocessableEntity {
		doc.Status = http.StatusBadRequest
	}
	e := api.OpenAIError{
		Message: doc.Title, Type: openAIType(doc.Status),
		Param: doc.Field, Code: openAICode(doc.Type),
		Offset: doc.Offset,
	}
	if doc.Detail != nil {
		e.Message = *doc.Detail
	}
	doc.Error = &e
	return doc
}

// openAIType says by the status who is to mend the matter.
func openAIType(status int) api.OpenAIErrorType {
	switch {
	case status == http.StatusTooManyRequests:
		return api.OpenAIRateLimit
	case status >= http.StatusInternalServerError:
		return api.OpenAIServerError
	}
	return api.OpenAIInvalidRequest
}

// openAICode is OpenAI's name of a type of problem, where there is one, or one like it.
func openAICode(kind api.ProblemType) string {
	switch kind {
	case api.ProblemUnauthorized:
		return "invalid_api_key"
	case api.ProblemKeyRequestLimit, api.ProblemKeyRateLimit:
		return "rate_limit_exceeded"
	}
	return strings.ReplaceAll(Name(kind), "-", "_")
}
