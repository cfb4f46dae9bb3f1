package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder(contract.MediaTar, openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/openmetrics-text",
		openapi3filter.FileBodyDecoder)
	for _, media := range []string{"text/html", "text/css", "text/javascript"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := writeExamples(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

func smallModel(t *testing.T, seed uint64) *model.Model {
	t.Helper()
	m, err := modeltest.New(seed)
	require.NoError(t, err)
	return m
}

// rig is a test server on a loopback port, with a fake session manager and a client. The client
// checks every answer against the OpenAPI contract.
type rig struct {
	t      *testing.T
	fake   *fakeSessions // nil if the server has other sessions
	server *Server
	addr   string
	url    string
	key    string // key that requests use by default
	small  string // second key, with low limits
	admin  string
	client *http.Client
	plain  *http.Client // client that neither checks nor buffers answers
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	fake := newFake()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newRigOn(t, fake, o, l, &http.Transport{})
	g.fake = fake
	return g
}

func newRigOn(t *testing.T, sessions Sessions, o Options, l net.Listener,
	transport *http.Transport) *rig {
	t.Helper()
	s, err := New(sessions, o)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	g := &rig{t: t, server: s, addr: l.Addr().String(), url: "http://" + l.Addr().String()}
	if transport.TLSClientConfig != nil {
		g.url = "https://" + l.Addr().String()
	}
	g.client = &http.Client{Transport: &checkedTransport{t: t, base: transport, doc: document(t),
		router: router(t)}}
	g.plain = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-served)
		transport.CloseIdleConnections()
	})
	return g
}

func document(t *testing.T) *openapi3.T {
	doc, err := contract.Document()
	require.NoError(t, err)
	return doc
}

func router(t *testing.T) routers.Router {
	doc := *document(t)
	doc.Servers = nil // so that the router accepts any server address
	r, err := legacy.NewRouter(&doc, openapi3.DisableExamplesValidation())
	require.NoError(t, err)
	return r
}

// do sends a request. The headers are pairs of name and value.
func (g *rig) do(method, path string, body io.Reader, headers ...string) *http.Response {
	g.t.Helper()
	r, err := http.NewRequest(method, g.url+path, body)
	require.NoError(g.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if g.key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+g.key)
	}
	resp, err := g.client.Do(r)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (g *rig) text(path, body string, headers ...string) *http.Response {
	g.t.Helper()
	return g.do("POST", path, strings.NewReader(body),
		append([]string{"Content-Type", "text/plain"}, headers...)...)
}

func (g *rig) json(path, body string, headers ...string) *http.Response {
	g.t.Helper()
	return g.do("POST", path, strings.NewReader(body),
		append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (g *rig) send(method, path, body string) *http.Response {
	g.t.Helper()
	return g.do(method, path, strings.NewReader(body), "Content-Type", contract.MediaJSON)
}

func (g *rig) create(body string) string {
	g.t.Helper()
	resp := g.json("/v1/sessions", body)
	require.Equal(g.t, http.StatusCreated, resp.StatusCode)
	return resp.Header.Get("Location")
}

func decode[T any](t *testing.T, resp *http.Response, status int) T {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, string(raw))
	var v T
	require.NoError(t, json.Unmarshal(raw, &v), string(raw))
	return v
}

func requireProblem(t *testing.T, resp *http.Response, kind api.ProblemType) api.Problem {
	t.Helper()
	require.Equal(t, contract.MediaProblem, resp.Header.Get("Content-Type"))
	p := decode[api.Problem](t, resp, problem.Kinds[kind].Status)
	require.Equal(t, kind, p.Type)
	require.Equal(t, resp.StatusCode, p.Status)
	require.Equal(t, resp.Header.Get(answer.HeaderRequestID), p.RequestID)
	return p
}

type event struct {
	Name, ID string // empty in NDJSON
	Type     string
	Raw      []byte
}

func as[T any](t *testing.T, e event) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(e.Raw, &v), string(e.Raw))
	return v
}

// eventReader reads an event stream in server-sent events or NDJSON.
type eventReader struct {
	sse  bool
	line *bufio.Reader
}

func readEvents(resp *http.Response) *eventReader {
	return &eventReader{sse: resp.Header.Get("Content-Type") == contract.MediaEventStream,
		line: bufio.NewReader(resp.Body)}
}

// next returns the next event, or io.EOF if the stream ends between two events.
func (r *eventReader) next() (event, error) {
	var e event
	for {
		line, err := r.line.ReadString('\n')
		if err != nil {
			if err == io.EOF && (line != "" || e.Name != "") {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		field, rest, _ := strings.Cut(line, ": ")
		switch {
		case !r.sse:
			e.Raw = []byte(line)
			return e, setType(&e)
		case line == "":
			return e, setType(&e)
		case field == "event":
			e.Name = rest
		case field == "id":
			e.ID = rest
		case field == "data":
			e.Raw = []byte(rest)
		}
	}
}

func setType(e *event) error {
	var v struct{ Type string }
	err := json.Unmarshal(e.Raw, &v)
	e.Type = v.Type
	return err
}

// all reads all events of a stream. It fails the test if the stream ends within an event.
func (r *eventReader) all(t *testing.T) []event {
	t.Helper()
	var events []event
	for {
		e, err := r.next()
		if err == io.EOF {
			return events
		}
		require.NoError(t, err)
		events = append(events, e)
	}
}

type checkedTransport struct {
	t      *testing.T
	base   http.RoundTripper
	doc    *openapi3.T
	router routers.Router
}

func (c *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	media := resp.Header.Get("Content-Type")
	if resp.Header.Get(answer.HeaderRequestID) == "" {
		c.t.Errorf("%s %s: no %s", r.Method, r.URL, answer.HeaderRequestID)
	}
	if media == contract.MediaEventStream || media == contract.MediaNDJSON {
		resp.Body = &checkedStream{ReadCloser: resp.Body,
			check: func(raw []byte) { c.checkStream(r, media, raw) }}
		return resp, nil
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	c.checkWhole(r, resp, raw)
	return resp, nil
}

// checkWhole checks an answer that is not a stream. An answer for a path outside the contract must
// be a problem.
func (c *checkedTransport) checkWhole(r *http.Request, resp *http.Response, raw []byte) {
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		if r.Method != http.MethodHead {
			c.checkSchema(r, "Problem", raw)
		}
		return
	}
	err = openapi3filter.ValidateResponse(context.Background(),
		&openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r,
				PathParams: params, Route: route},
			Status:  resp.StatusCode,
			Header:  resp.Header,
			Body:    io.NopCloser(bytes.NewReader(raw)),
			Options: &openapi3filter.Options{IncludeResponseStatus: true},
		})
	if err != nil {
		c.t.Errorf("%s %s: the answer %d is not in the contract: %v\n%s", r.Method, r.URL,
			resp.StatusCode, err, raw)
	}
}

func (c *checkedTransport) checkStream(r *http.Request, media string, raw []byte) {
	if r.Method == http.MethodHead {
		return
	}
	route, _, err := c.router.FindRoute(r)
	if err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return
	}
	schema := route.Operation.Responses.Status(http.StatusOK).Value.Content[media].Schema.Value
	events := &eventReader{sse: media == contract.MediaEventStream,
		line: bufio.NewReader(bytes.NewReader(raw))}
	for {
		e, err := events.next()
		if err != nil {
			return
		}
		c.checkValue(r, schema, e.Raw)
		if e.Name != e.Type && media == contract.MediaEventStream {
			c.t.Errorf("%s %s: the event %q has type %q", r.Method, r.URL, e.Name, e.Type)
		}
		if e.ID != "" {
			if _, err := strconv.ParseInt(e.ID, 10, 64); err != nil {
				c.t.Errorf("%s %s: the event id %q is not an offset", r.Method, r.URL, e.ID)
			}
		}
	}
}

func (c *checkedTransport) checkSchema(r *http.Request, name string, raw []byte) {
	c.checkValue(r, c.doc.Components.Schemas[name].Value, raw)
}

func (c *checkedTransport) checkValue(r *http.Request, schema *openapi3.Schema, raw []byte) {
	var v any
	err := json.Unmarshal(raw, &v)
	if err == nil {
		err = schema.VisitJSON(v, openapi3.VisitAsResponse())
	}
	if err != nil {
		c.t.Errorf("%s %s: %v\n%s", r.Method, r.URL, err, raw)
	}
}

// checkedStream records the bytes read from a stream. Close checks the recorded bytes.
type checkedStream struct {
	io.ReadCloser
	raw   bytes.Buffer
	check func(raw []byte)
	once  sync.Once
}

func (s *checkedStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.raw.Write(p[:n])
	return n, err
}

func (s *checkedStream) Close() error {
	s.once.Do(func() { s.check(s.raw.Bytes()) })
	return s.ReadCloser.Close()
}
