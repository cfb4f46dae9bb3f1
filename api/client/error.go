package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// errorBytesMax bounds what is read of an answer that reports an error.
const errorBytesMax = 1 << 20

// An Error is what the server has answered instead of doing what was asked for: a problem document
// (RFC 9457). Unless its Type says otherwise the request has changed nothing.
type Error struct {
	// "" if the answer is no problem document, but say a proxy's
	Type ProblemType `json:"type"`
	// a sentence that is the same for every problem of this type
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`   // what happened this time
	Field     string `json:"field"`    // the field of the body, by its path, or the parameter
	Found     string `json:"found"`    // what was found there
	Expected  string `json:"expected"` // what was expected there
	Offset    *int64 `json:"offset"`   // the session's true offset, in bytes; nil if there is none
	RequestID string `json:"request_id"`

	Differences []Difference `json:"differences"` // of ProblemSessionDiffers: all that differs
	// where a session is damaged; nil if it is not known
	Damage     *Damage `json:"damage"`
	UsedBytes  int64   `json:"used_bytes"`  // of ProblemKeyDiskLimit
	LimitBytes int64   `json:"limit_bytes"` // of ProblemKeyDiskLimit

	// RetryAfter is the time after which another attempt may succeed; 0 if the server has not said.
	RetryAfter time.Duration `json:"-"`
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the server answers %d: %s", e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Is reports whether an error is, or wraps, an [Error] of this type.
func Is(err error, t ProblemType) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == t
}

// readError makes an Error of an answer that is none of success; of one that is cut off, the error
// of reading it.
func readError(answer *http.Response) error {
	e := &Error{}
	text, err := io.ReadAll(io.LimitReader(answer.Body, errorBytesMax))
	if err != nil {
		return fmt.Errorf("client: reading an answer of status %d: %w", answer.StatusCode, err)
	}
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(text, e) != nil {
		beginning := strings.ToValidUTF8(string(text[:min(len(text), 200)]), "")
		*e = Error{Title: http.StatusText(answer.StatusCode), Detail: strings.TrimSpace(beginning)}
	}
	e.Status = answer.StatusCode
	if e.RequestID == "" {
		e.RequestID = answer.Header.Get("X-Request-Id")
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
