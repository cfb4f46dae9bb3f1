package problem

import (
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// InOpenAIForm adds the error object that OpenAI clients expect. Status 422 becomes 400, OpenAI's
// status for invalid fields.
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

func openAIType(status int) api.OpenAIErrorType {
	switch {
	case status == http.StatusTooManyRequests:
		return api.OpenAIRateLimit
	case status >= http.StatusInternalServerError:
		return api.OpenAIServerError
	}
	return api.OpenAIInvalidRequest
}

// openAICode returns OpenAI's error code for a problem type. If OpenAI has none, the code is the
// type's short name with underscores.
func openAICode(kind api.ProblemType) string {
	switch kind {
	case api.ProblemUnauthorized:
		return "invalid_api_key"
	case api.ProblemKeyRequestLimit, api.ProblemKeyRateLimit:
		return "rate_limit_exceeded"
	}
	return strings.ReplaceAll(Name(kind), "-", "_")
}
