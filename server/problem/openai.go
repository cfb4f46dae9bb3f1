package problem

import (
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// InOpenAIForm adds the error object that clients of OpenAI's interface read. It replaces status
// 422 by 400, which OpenAI uses for an invalid field.
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

// openAIType returns OpenAI's error type for a status.
func openAIType(status int) api.OpenAIErrorType {
	switch {
	case status == http.StatusTooManyRequests:
		return api.OpenAIRateLimit
	case status >= http.StatusInternalServerError:
		return api.OpenAIServerError
	}
	return api.OpenAIInvalidRequest
}

// openAICode returns OpenAI's closest error code for a problem type, if any.
func openAICode(kind api.ProblemType) string {
	switch kind {
	case api.ProblemUnauthorized:
		return "invalid_api_key"
	case api.ProblemKeyRequestLimit, api.ProblemKeyRateLimit:
		return "rate_limit_exceeded"
	}
	return strings.ReplaceAll(Name(kind), "-", "_")
}
