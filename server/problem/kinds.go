package problem

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// Kinds maps each problem type to its status and title. A test compares Kinds with the table
// x-problems in api/openapi.yaml.
var Kinds = map[api.ProblemType]struct {
	Status int
	Title  string
}{
	api.ProblemMalformedRequest: {http.StatusBadRequest,
		"The request is not valid HTTP"},
	api.ProblemInvalidParameter: {http.StatusBadRequest,
		"A request parameter is invalid"},
	api.ProblemMalformedBody: {http.StatusBadRequest,
		"The body cannot be parsed"},
	api.ProblemBodyIncomplete: {http.StatusBadRequest,
		"The body ended early"},
	api.ProblemImportDamaged: {http.StatusBadRequest,
		"The file cannot be imported"},
	api.ProblemUnauthorized: {http.StatusUnauthorized,
		"The request has no valid key"},
	api.ProblemAdminOnly: {http.StatusForbidden,
		"The operation needs an admin key"},
	api.ProblemOriginNotAllowed: {http.StatusForbidden,
		"The request's origin is not allowed"},
	api.ProblemNotFound:        {http.StatusNotFound, "The path does not exist"},
	api.ProblemSessionNotFound: {http.StatusNotFound, "The session does not exist"},
	api.ProblemModelNotFound:   {http.StatusNotFound, "The model does not exist"},
	api.ProblemMethodNotAllowed: {http.StatusMethodNotAllowed,
		"The method is not allowed here"},
	api.ProblemNotAcceptable: {http.StatusNotAcceptable,
		"No accepted media type is available"},
	api.ProblemBodyTimeout: {http.StatusRequestTimeout,
		"The body stopped arriving"},
	api.ProblemOffsetConflict: {http.StatusConflict,
		"The session is at another offset"},
	api.ProblemSessionBusy: {http.StatusConflict, "Another request is feeding " +
		"the session"},
	api.ProblemSessionDiffers:  {http.StatusConflict, "The session differs from the request"},
	api.ProblemNameTaken:       {http.StatusConflict, "Another session has this name"},
	api.ProblemSessionFull:     {http.StatusConflict, "The session is full"},
	api.ProblemSessionShadow:   {http.StatusConflict, "A shadow session accepts no text"},
	api.ProblemSessionUnusable: {http.StatusConflict, "The session cannot be used"},
	api.ProblemBackupBusy:      {http.StatusConflict, "Another backup is running"},
	api.ProblemHistoryTrimmed:  {http.StatusGone, "The text is no longer stored"},
	api.ProblemBackupGone: {http.StatusPreconditionFailed,
		"The backup has ended"},
	api.ProblemBodyTooLarge: {http.StatusRequestEntityTooLarge,
		"The body is too large"},
	api.ProblemUnsupportedMediaType: {http.StatusUnsupportedMediaType,
		"The body's media type is unsupported"},
	api.ProblemHostNotAllowed: {http.StatusMisdirectedRequest,
		"The Host header is not allowed"},
	api.ProblemInvalidField: {http.StatusUnprocessableEntity,
		"A body field is invalid"},
	api.ProblemImportModel: {http.StatusUnprocessableEntity,
		"The export belongs to another model"},
	api.ProblemHeadersTooLarge: {http.StatusRequestHeaderFieldsTooLarge,
		"The request headers are too large"},
	api.ProblemSessionQueueFull: {http.StatusTooManyRequests,
		"The session's request queue is full"},
	api.ProblemKeySessionLimit: {http.StatusTooManyRequests,
		"The key's session limit is reached"},
	api.ProblemKeyRequestLimit: {http.StatusTooManyRequests,
		"The key's request limit is reached"},
	api.ProblemKeyRateLimit: {http.StatusTooManyRequests,
		"The key's rate limit is exceeded"},
	api.ProblemInternal: {http.StatusInternalServerError,
		"The server had an internal error"},
	api.ProblemUnsupportedTransferEncoding: {http.StatusNotImplemented,
		"The transfer encoding is unsupported"},
	api.ProblemNoBackup: {http.StatusNotImplemented, "The session store has no backups"},
	api.ProblemSessionLimit: {http.StatusServiceUnavailable, "Session or memory limit is " +
		"reached"},
	api.ProblemOverloaded: {http.StatusServiceUnavailable, "The server is overloaded"},
	api.ProblemModelUnavailable: {http.StatusServiceUnavailable, "The model's weights cannot be " +
		"loaded"},
	api.ProblemDraining:     {http.StatusServiceUnavailable, "The server is shutting down"},
	api.ProblemKeyDiskLimit: {http.StatusInsufficientStorage, "The key's disk limit is reached"},
	api.ProblemNoSpace:      {http.StatusInsufficientStorage, "The disk is full"},
}

// Name returns a problem type's short name, such as session-not-found.
func Name(kind api.ProblemType) string {
	return strings.TrimPrefix(string(kind), "urn:lmserve:problem:")
}

// Names returns the short names of all problem types in alphabetical order.
func Names() (all []string) {
	for kind := range Kinds {
		all = append(all, Name(kind))
	}
	slices.Sort(all)
	return all
}
