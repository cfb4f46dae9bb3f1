package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const mediaJSON = "application/json"

// A Client makes requests to one server with one key. Its methods may be called concurrently.
type Client struct {
	base     string // without a trailing slash
	key      string
	http     *http.Client
	patience time.Duration
}

// An Option configures a Client.
type Option func(*Client)

// WithKey makes the client send a key, as printed by `lmserve keys add`. "" means no key.
func WithKey(key string) Option { return func(c *Client) { c.key = key } }

// WithHTTPClient makes the client send requests with h. The transport of h determines how the
// server is reached, for example over a Unix socket or in process. A Timeout of h also ends long
// requests, so contexts are preferable.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience makes a call retry for up to d in total if the server's refusal permits a retry. The
// server permits retries if another request feeds the session, if it is overloaded, or if the key
// has reached a limit. Without patience, such a call fails at once with an [Error], whose
// RetryAfter is the time to wait. Calls whose text is an io.Reader cannot be repeated; they only
// wait for their turn. Feed and Feeder do not use this limit.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = max(0, d) } }

// New makes a client of the server at a base URL, such as http://localhost:8080. It makes no
// request.
func New(baseURL string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("client: base URL: found %q, expected http://HOST or https://HOST, "+
			"with a port or without", baseURL)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: base URL: found %q, expected no query and no fragment",
			baseURL)
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), http: http.DefaultClient}
	for _, o := range options {
		o(c)
	}
	return c, nil
}

// Ready returns the server's status. The error is an [Error] if the server accepts no new work.
func (c *Client) Ready(ctx context.Context) (ServiceStatus, error) {
	return object[ServiceStatus](c, request(newReadyRequest(ctx, c.base)))
}

// Models lists the server's models.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	list, err := object[struct{ Data []Model }](c, request(newListModelsRequest(ctx, c.base)))
	return list.Data, err
}

// made is a new request, or the error of creating it.
type made struct {
	*http.Request
	err error
}

// request combines a request and an error into one value.
func request(r *http.Request, err error) made { return made{r, err} }

// object makes a request whose answer is a single JSON object.
func object[T any](c *Client, r made) (T, error) {
	var v T
	answer, err := c.send(r, mediaJSON)
	if err != nil {
		return v, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		return v, fmt.Errorf("client: %s %s: reading the answer: %w", r.Method, r.URL.Path, err)
	}
	return v, nil
}

// jsonBody encodes v as the JSON body of a request.
func jsonBody(v any) (io.Reader, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("client: encoding %T as JSON: %w", v, err)
	}
	return bytes.NewReader(text), nil
}

// send makes a request and returns a successful answer, whose body the caller closes. It repeats
// requests that can be repeated until the client's patience ends. An unsuccessful answer becomes an
// *Error.
func (c *Client) send(r made, accept string) (*http.Response, error) {
	if r.err != nil {
		return nil, fmt.Errorf("client: making a request: %w", r.err)
	}
	if r.Header.Set("Accept", accept); c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	end := time.Now().Add(c.patience)
	for pause := (backoff{}); ; {
		answer, err := c.http.Do(r.Request)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode < 300 {
			return answer, nil
		}
		err = readError(answer)
		_ = answer.Body.Close()
		wait := pause.next(err)
		if !comesBack(err) || time.Until(end) < wait || r.Body != nil && r.GetBody == nil {
			return nil, err
		}
		if errWait := sleep(r.Context(), wait); errWait != nil {
			return nil, errors.Join(errWait, err)
		}
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf(
					"client: reading the body of a request again to repeat the request: %w", err)
			}
		}
	}
}
