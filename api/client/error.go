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

// errorBytesMax limits how many bytes of an error answer are read.
const errorBytesMax = 1 << 20

// An Error is a refusal by the server: a problem document (RFC 9457). The request has changed
// nothing unless the Type says otherwise.
type Error struct {
	// "" if the answer is not a problem document, for example the answer of a proxy
	Type ProblemType `json:"type"`
	// a fixed sentence for problems of this type
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// path of a field in the request's body, or the name of a parameter
	Field     string `json:"field"`
	Found     string `json:"found"`
	Expected  string `json:"expected"`
	Offset    *int64 `json:"offset"` // the session's actual offset in bytes, or nil
	RequestID string `json:"request_id"`

	Differences []Difference `json:"differences"` // set only for ProblemSessionDiffers
	// where the session is damaged; nil if unknown
	Damage     *Damage `json:"damage"`
	UsedBytes  int64   `json:"used_bytes"`  // set only for ProblemKeyDiskLimit
	LimitBytes int64   `json:"limit_bytes"` // set only for ProblemKeyDiskLimit

	// RetryAfter is how long to wait before a retry. It is 0 if the server gave no time.
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

// Is reports whether err is, or wraps, an [Error] of type t.
func Is(err error, t ProblemType) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == t
}

// readError turns an unsuccessful answer into an *Error. It returns a different error if reading
// the answer fails.
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
