package alert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Receiver is a destination of alerts.
type Receiver struct {
	kind  string // webhook, alertmanager, otlp or exec
	what  string // the argument of ParseReceiver
	name  string // name to show, without the parts of a URL that may be secrets
	send  func(context.Context, []Alert) error
	every time.Duration // time between reminders of open alerts; 0 means no reminders
	pause time.Duration // pause before the second try; 0 means the default
}

// ParseReceiver parses URL, alertmanager:URL, otlp:URL or exec:COMMAND.
func ParseReceiver(what string) (*Receiver, error) {
	kind, rest, _ := strings.Cut(what, ":")
	r := &Receiver{kind: kind, what: what}
	switch kind {
	case "exec":
		if strings.TrimSpace(rest) == "" {
			return nil, errors.New(`"exec:" without a command, expected exec:COMMAND`)
		}
		r.name, r.send = "exec", command(rest).send
		return r, nil
	case "alertmanager", "otlp":
	default:
		r.kind, rest = "webhook", what
	}
	u, err := url.Parse(rest)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("found an invalid receiver, expected http://HOST/..., " +
			"https://HOST/..., alertmanager:URL, otlp:URL or exec:COMMAND")
	}
	r.name = r.kind + " at " + u.Host
	switch r.kind {
	case "alertmanager":
		r.send, r.every = alertmanager(u.JoinPath("api/v2/alerts").String()).send, remindEvery
	case "otlp":
		if strings.Trim(u.Path, "/") == "" {
			u = u.JoinPath("v1/logs")
		}
		r.send = collector(u.String()).send
	default:
		r.send = webhook(u.String()).send
	}
	return r, nil
}

// String returns the receiver's name, without possible secrets.
func (r *Receiver) String() string { return r.name }

// key identifies the receiver in the Notifier's file.
func (r *Receiver) key() string {
	return fmt.Sprintf("%s-%x", r.kind, sha256.Sum256([]byte(r.what)))[:len(r.kind)+17]
}

// webhook is a URL to which each alert is posted as JSON.
type webhook string

func (w webhook) send(ctx context.Context, alerts []Alert) error {
	for i := range alerts {
		body, err := json.Marshal(&alerts[i])
		if err == nil {
			err = post(ctx, string(w), "application/json", body, alerts[i].ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// httpClient does not follow redirects, because a redirect can turn a POST into a GET.
var httpClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}}

const (
	// maximum number of bytes to read of an answer; a completely read answer lets the connection be
	// reused
	answerMost = 1 << 16
	quoteMost  = 200
)

// post sends a body. An error that another try cannot fix is a *backoff.PermanentError.
func post(ctx context.Context, to, media string, body []byte, id string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(withoutURL(err))
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("User-Agent", "lmserve")
	if id != "" {
		r.Header.Set("Idempotency-Key", id)
	}
	answer, err := httpClient.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, answerMost))
	return statusError(answer, hidden(r.URL, said))
}

// secretLeast is the minimum length, in bytes, of a part of a URL that is treated as a secret.
const secretLeast = 8

// hidden replaces the parts of the URL that may be secrets in a receiver's answer, because many
// servers quote the path in their answers.
func hidden(u *url.URL, said []byte) []byte {
	separates := func(r rune) bool { return strings.ContainsRune("/?&=", r) }
	query, _ := url.QueryUnescape(u.RawQuery)
	parts := strings.FieldsFunc(u.RequestURI()+"/"+u.Path+"/"+query, separates)
	// A part may contain a shorter part, so the longest parts come first.
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	for _, part := range parts {
		if len(part) >= secretLeast {
			said = bytes.ReplaceAll(said, []byte(part), []byte("..."))
		}
	}
	return said
}

func withoutURL(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

func statusError(answer *http.Response, said []byte) error {
	if answer.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("answered %s: %.*q", answer.Status, quoteMost, said)
	switch code := answer.StatusCode; {
	case code/100 == 5 || code == http.StatusRequestTimeout || code == http.StatusTooEarly ||
		code == http.StatusTooManyRequests:
		if wait := retryAfter(answer.Header.Get("Retry-After")); wait > 0 {
			return fmt.Errorf("%w (%w)", err, &backoff.RetryAfterError{Duration: wait})
		}
		return err
	}
	return backoff.Permanent(err)
}

// retryAfterMost is the longest pause that a receiver may ask for.
const retryAfterMost = 10 * time.Minute

// retryAfter returns the pause that a header Retry-After asks for, in seconds or as a date (RFC
// 9110, section 10.2.3). It returns 0 for an invalid header.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int(retryAfterMost.Seconds()))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(time.Until(at).Round(time.Second), retryAfterMost)
}

// command is a shell command, which gets each alert as JSON on its standard input.
type command string

// outputGrace is how long children of an ended command may keep its output open.
const outputGrace = time.Second

// beginning is a writer that keeps the first quoteMost bytes.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), quoteMost-len(b.text))]...)
	return len(p), nil
}

func (c command) send(ctx context.Context, alerts []Alert) error {
	for i := range alerts {
		body, err := json.Marshal(&alerts[i])
		if err != nil {
			return backoff.Permanent(err)
		}
		run := exec.CommandContext(ctx, "sh", "-c", string(c))
		run.Stdin, run.WaitDelay = bytes.NewReader(append(body, '\n')), outputGrace
		killGroup(run)
		said := &beginning{}
		run.Stdout, run.Stderr = said, said
		err = run.Run()
		if errors.Is(err, exec.ErrWaitDelay) { // the command itself succeeded
			err = nil
		}
		if err != nil {
			return fmt.Errorf("the command failed: %w: %.*q", err, quoteMost, said.text)
		}
	}
	return nil
}
