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
	base     string // base URL without a trailing slash
	key      string
	http     *http.Client
	patience time.Duration
}

// An Option configures a Client.
type Option func(*Client)

// WithKey makes the client send a key, as printed by `lmserve keys add`. "" means no key.
func WithKey(key string) Option { return func(c *Client) { c.key = key } }

// WithHTTPClient makes the client send requests with h. The transport of h determines how requests
// reach the server, for example over a Unix socket. A Timeout of h also ends long requests, so
// contexts are preferable.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience makes a call retry temporary refusals for up to d in total. A refusal is temporary
// if another request feeds the session, the server is overloaded, or the key has reached a limit.
// Without patience, a refused call fails at once with an [Error], whose RetryAfter is the time to
// wait. A call whose text is an io.Reader is not retried, because the text cannot be sent again.
// The server queues such a call for up to d while another request feeds the session. Feed and
// Feeder ignore d.
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

type made struct {
	*http.Request
	err error
}

func request(r *http.Request, err error) made { return made{r, err} }

// object sends a request and decodes the JSON object in the answer.
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

func jsonBody(v any) (io.Reader, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("client: encoding %T as JSON: %w", v, err)
	}
	return bytes.NewReader(text), nil
}

// send sends a request and returns a successful answer, whose body the caller closes. An
// unsuccessful answer becomes an *Error. Until the client's patience ends, send retries temporary
// refusals, unless the request's body can be read only once.
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
