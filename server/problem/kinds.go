package problem

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
)

// Kinds maps each problem type to its status and title. A test compares it with the contract's
// table, x-problems of ProblemType.
var Kinds = map[api.ProblemType]struct {
	Status int
	Title  string
}{
	api.ProblemMalformedRequest: {http.StatusBadRequest,
		"The request is not HTTP that can be understood"},
	api.ProblemInvalidParameter: {http.StatusBadRequest,
		"A parameter of the path or query cannot be used"},
	api.ProblemMalformedBody: {http.StatusBadRequest,
		"The body is not what its Content-Type says"},
	api.ProblemBodyIncomplete: {http.StatusBadRequest,
		"The body was cut off; what was reported before stays"},
	api.ProblemImportDamaged: {http.StatusBadRequest,
		"The file is damaged, or no export of a session"},
	api.ProblemUnauthorized: {http.StatusUnauthorized,
		"The request has no key that is good here; what was reported before stays"},
	api.ProblemAdminOnly: {http.StatusForbidden,
		"Only the key of an admin may do this"},
	api.ProblemOriginNotAllowed: {http.StatusForbidden,
		"The request comes from a page of another origin"},
	api.ProblemNotFound:        {http.StatusNotFound, "There is nothing at this path"},
	api.ProblemSessionNotFound: {http.StatusNotFound, "There is no such session"},
	api.ProblemModelNotFound:   {http.StatusNotFound, "There is no such model"},
	api.ProblemMethodNotAllowed: {http.StatusMethodNotAllowed,
		"The path does not know this method"},
	api.ProblemNotAcceptable: {http.StatusNotAcceptable,
		"No answer can be given in a form that Accept allows"},
	api.ProblemBodyTimeout: {http.StatusRequestTimeout,
		"The body stalled; what was reported before stays"},
	api.ProblemOffsetConflict: {http.StatusConflict,
		"The session is at another offset"},
	api.ProblemSessionBusy: {http.StatusConflict, "Another request is feeding " +
		"the session"},
	api.ProblemSessionDiffers: {http.StatusConflict, "The session of this name is " +
		"not the one that was asked for"},
	api.ProblemNameTaken: {http.StatusConflict, "Another session of the key " +
		"has this name"},
	api.ProblemSessionFull: {http.StatusConflict, "The session has as much text " +
		"as it can have; what was reported before stays"},
	api.ProblemSessionShadow: {http.StatusConflict, "The session is a shadow, " +
		"which takes its text from another session"},
	api.ProblemSessionUnusable: {http.StatusConflict, "The session is damaged, or " +
		"another model's; it can be deleted"},
	api.ProblemBackupBusy: {http.StatusConflict, "Another backup is under way"},
	api.ProblemHistoryTrimmed: {http.StatusGone, "The session does not keep this " +
		"part of its text any more"},
	api.ProblemBackupGone: {http.StatusPreconditionFailed,
		"The backup has ended; a new one can be made"},
	api.ProblemBodyTooLarge: {http.StatusRequestEntityTooLarge,
		"The body is too large; what was reported before stays"},
	api.ProblemUnsupportedMediaType: {http.StatusUnsupportedMediaType,
		"A body of this kind cannot be used here"},
	api.ProblemHostNotAllowed: {http.StatusMisdirectedRequest,
		"The request is for a host that this server is not"},
	api.ProblemInvalidField: {http.StatusUnprocessableEntity,
		"A field of the body has a value that cannot be used"},
	api.ProblemImportModel: {http.StatusUnprocessableEntity,
		"The exported session is another model's"},
	api.ProblemHeadersTooLarge: {http.StatusRequestHeaderFieldsTooLarge,
		"The request line and headers are too large"},
	api.ProblemSessionQueueFull: {http.StatusTooManyRequests,
		"Too many requests wait to feed the session"},
	api.ProblemKeySessionLimit: {http.StatusTooManyRequests,
		"The key has as many live sessions as it may have"},
	api.ProblemKeyRequestLimit: {http.StatusTooManyRequests,
		"The key has as many requests at work as it may have"},
	api.ProblemKeyRateLimit: {http.StatusTooManyRequests,
		"The key has used up its bytes a second"},
	api.ProblemInternal: {http.StatusInternalServerError,
		"The server failed; what was reported before stays"},
	api.ProblemUnsupportedTransferEncoding: {http.StatusNotImplemented,
		"The body comes in a transfer coding that the server does not take"},
	api.ProblemNoBackup: {http.StatusNotImplemented, "The sessions are in memory only, " +
		"of which there are no backups"},
	api.ProblemSessionLimit: {http.StatusServiceUnavailable, "The limit on live sessions, or " +
		"on their memory, is reached"},
	api.ProblemOverloaded: {http.StatusServiceUnavailable, "Too much is to be done before " +
		"this request; it may be made again"},
	api.ProblemModelUnavailable: {http.StatusServiceUnavailable, "The model's weights cannot be " +
		"loaded now; nothing was changed"},
	api.ProblemDraining: {http.StatusServiceUnavailable, "The server is shutting down; what " +
		"was reported before stays"},
	api.ProblemKeyDiskLimit: {http.StatusInsufficientStorage, "The key has as much on the disk " +
		"as it may have; what was reported before stays"},
	api.ProblemNoSpace: {http.StatusInsufficientStorage, "The disk is full; what was reported " +
		"before stays"},
}

// Name returns a problem type's short name, such as session-not-found.
func Name(kind api.ProblemType) string {
	return strings.TrimPrefix(string(kind), "urn:lmserve:problem:")
}

// Names returns the short names of all types alphabetically.
func Names() (all []string) {
	for kind := range Kinds {
		all = append(all, Name(kind))
	}
	slices.Sort(all)
	return all
}
