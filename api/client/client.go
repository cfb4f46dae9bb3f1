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

// A Client makes requests to one server, with one key. Its methods may be called from any number of
// goroutines.
type Client struct {
	base     string // without a slash at its end
	key      string
	http     *http.Client
	patience time.Duration
}

// An Option of a Client.
type Option func(*Client)

// WithKey makes the client bring a key, as `lmserve keys add` prints it. "" is none.
func WithKey(key string) Option { return func(c *Client) { c.key = key } }

// WithHTTPClient makes the client send its requests by h, whose transport decides how the server is
// reached: say by a Unix socket, or within the process. A Timeout of h would also end requests that
// are at work; contexts are the better way.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience makes a call wait up to d altogether where the server says that it can be repeated:
// where another request feeds the session, where the server has too much to do, or the key has used
// up what it may. Without patience such a call ends with an [Error] at once, whose RetryAfter says
// when to come back. Calls whose text is an io.Reader cannot be repeated, and wait for their turn
// only. Feeding has a patience of its own.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = max(0, d) } }

// New makes a client of the server at a base URL, such as http://localhost:8080. No request is
// made.
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

// Ready asks whether the server takes new work. The error is an [Error] if it says that it does
// not.
func (c *Client) Ready(ctx context.Context) (ServiceStatus, error) {
	return object[ServiceStatus](c, request(newReadyRequest(ctx, c.base)))
}

// Models lists the models that the server has.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	list, err := object[struct{ Data []Model }](c, request(newListModelsRequest(ctx, c.base)))
	return list.Data, err
}

// made is a request, or the error of making it.
type made struct {
	*http.Request
	err error
}

// request puts the results of a function that makes a request into one value.
func request(r *http.Request, err error) made { return made{r, err} }

// object makes a request whose answer is one JSON object.
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

// jsonBody is the body of a request: v as JSON.
func jsonBody(v any) (io.Reader, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("client: %T as JSON: %w", v, err)
	}
	return bytes.NewReader(text), nil
}

// send makes a request and gives the answer of success, whose body the caller closes. A request
// that can be repeated is, as long as the client's patience lasts. An answer that is not one of
// success is an *Error.
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
				return nil, fmt.Errorf("client: repeating a request: %w", err)
			}
		}
	}
}
