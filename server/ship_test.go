package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/handler"
	"github.com/lmserve/lmserve/server/limits"
)

// newShipRig makes a test server that creates missing sessions for incoming logs. These sessions
// are fast: they use the static model without a companion.
func newShipRig(t *testing.T, o Options) *rig {
	t.Helper()
	o.Logs.Make = true
	o.Logs.Settings = session.Settings{"method": session.MethodStatic, "companion": false}
	return newFolderRig(t, t.TempDir(), 1, o, session.Options{})
}

func (g *rig) told(name string) string {
	g.t.Helper()
	resp := g.do("GET", "/v1/sessions/"+name+"/text", nil)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(g.t, err)
	require.Equal(g.t, http.StatusOK, resp.StatusCode, string(raw))
	return string(raw)
}

func (g *rig) ship(path, media, body string, headers ...string) (int, string) {
	g.t.Helper()
	resp := g.do("POST", path, strings.NewReader(body), append([]string{"Content-Type", media},
		headers...)...)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(g.t, err)
	return resp.StatusCode, string(raw)
}

func record(nanos uint64, body string) *logs.LogRecord {
	r := &logs.LogRecord{TimeUnixNano: nanos}
	if body != "" {
		r.Body = &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: body}}
	}
	return r
}

func otlp(t *testing.T, service string, records ...*logs.LogRecord) string {
	t.Helper()
	name := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: service}}
	raw, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name",
			Value: name}}},
		ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}},
	}}})
	require.NoError(t, err)
	return string(raw)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

func TestOTLPFeedsSessionsOfServices(t *testing.T) {
	g := newShipRig(t, Options{})
	body := otlp(t, "Checkout", record(1, "one"), record(2, "two\nlines"))
	status, answer := g.ship("/v1/logs", contract.MediaProtobuf, body)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, answer)
	status, _ = g.ship("/v1/logs", contract.MediaProtobuf, gzipped(t, body), "Content-Encoding",
		"gzip")
	require.Equal(t, http.StatusOK, status, "the answer was lost")
	status, answer = g.ship("/v1/logs", contract.MediaJSON,
		`{"resourceLogs":[{"resource":{"attributes":[
		{"key":"service.name","value":{"stringValue":"checkout"}}]},"scopeLogs":[{"logRecords":[
		{"timeUnixNano":"3","body":{"stringValue":"three"}},{"timeUnixNano":"4"}]}]}]}`)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"partialSuccess":{"rejectedLogRecords":"1",
		"errorMessage":"The body cannot be parsed: record 2: the record has no body"}}`,
		answer)
	require.Equal(t, "one\ntwo\\nlines\nthree\n", g.told("checkout"))
	require.Equal(t, "static", string(g.get("/v1/sessions/checkout").Settings.Method))
}

func TestOTLPErrorsAreStatuses(t *testing.T) {
	g := newShipRig(t, Options{})
	status, answer := g.ship("/v1/logs", contract.MediaProtobuf, "\x0a\xff")
	require.Equal(t, http.StatusBadRequest, status)
	number, _, n := protowire.ConsumeTag([]byte(answer))
	require.EqualValues(t, 1, number)
	code, _ := protowire.ConsumeVarint([]byte(answer)[n:])
	require.EqualValues(t, 3, code)
	require.Contains(t, answer, "of the body")
	p := decode[api.Problem](t, g.json("/v1/logs", `{"resourceLogs":7}`), http.StatusBadRequest)
	require.Equal(t, 3, *p.Code)
	require.Contains(t, *p.Message, "resourceLogs, byte 16 of the body: found 7, expected an array")
}

func TestOTLPRejectsOnlyWhatCannotBeFed(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	require.Equal(t, http.StatusCreated, g.send("PUT", "/v1/sessions/web", "{}").StatusCode)
	body := otlp(t, "other", record(1, "x"), record(2, "y")) + otlp(t, "web", record(3, "z"))
	status, answer := g.ship("/v1/logs", contract.MediaProtobuf, body)
	require.Equal(t, http.StatusOK, status)
	partial, _ := protowire.ConsumeBytes([]byte(answer)[1:])
	rejected, _ := protowire.ConsumeVarint(partial[1:])
	require.EqualValues(t, 2, rejected)
	require.Contains(t, answer, `No session has the name "other"`)
	require.Equal(t, "z\n", g.told("web"))
	status, answer = g.ship("/loki/api/v1/push", contract.MediaJSON,
		`{"streams":[{"stream":{"app":"other"},"values":[["1","x"]]},{"stream":{"app":"web"},`+
			`"values":[["1","zz"]]}]}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "session-not-found")
	require.Equal(t, "z\nzz\n", g.told("web"))
}

func TestLokiFeedsSessionsOfLabels(t *testing.T) {
	g := newShipRig(t, Options{})
	field := func(number protowire.Number, inner string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType),
			inner))
	}
	entry := field(1, "\x08\x01") + field(2, "one")
	body := string(snappy.Encode(nil,
		[]byte(field(1, field(1, `{app="shop", env="x"}`)+field(2, entry)))))
	for range 2 { // The shipper repeats the request, as if the first answer were lost.
		status, _ := g.ship("/loki/api/v1/push", contract.MediaProtobuf, body)
		require.Equal(t, http.StatusNoContent, status)
	}
	status, _ := g.ship("/loki/api/v1/push", contract.MediaJSON, gzipped(t,
		`{"streams":[{"stream":{"app":"shop"},"values":[["2000000000","two"]]}]}`),
		"Content-Encoding", "gzip")
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "one\ntwo\n", g.told("shop"))
	bomb := string(protowire.AppendVarint(nil, limits.LogBodyBytesMax+1)) + "\x00"
	status, answer := g.ship("/loki/api/v1/push", contract.MediaProtobuf, bomb)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "expected at most")
}

// If a session cannot be fed, other sessions still get their records. A repeated record without a
// time looks like a new record. Therefore records without a time are fed only if all records of the
// request can be fed.
func TestFullSessionsKeepOthersFromNothing(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "k", Limits: keys.Limits{Sessions: 2}})
	g := newShipRig(t, Options{Keys: ring.Ring})
	g.key = ring.token["k"]
	for _, name := range []string{"web", "plain"} {
		require.Equal(t, http.StatusCreated, g.send("PUT", "/v1/sessions/"+name,
			`{"settings":{"method":"static","companion":false}}`).StatusCode)
	}
	body := otlp(t, "plain", record(0, "p")) + otlp(t, "third", record(1, "x")) +
		otlp(t, "web", record(1, "w"))
	for range 2 {
		status, _ := g.ship("/v1/logs", contract.MediaProtobuf, body)
		require.Equal(t, http.StatusTooManyRequests, status)
		require.Equal(t, "w\n", g.told("web"))
		require.Empty(t, g.told("plain"))
	}
	status, _ := g.ship("/v1/logs", contract.MediaProtobuf,
		otlp(t, "plain", record(0, "p"))+otlp(t, "web", record(1, "w")))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "w\n", g.told("web"))
	require.Equal(t, "p\n", g.told("plain"))
}

func TestScoreTakesWhatShippersSend(t *testing.T) {
	g := newShipRig(t, Options{})
	for name, c := range map[string]struct{ query, media, coding, body, want string }{
		"ndjson": {"", "application/x-ndjson", "", `{"message":"a"}` + "\n" +
			`{"message":"b"}`, "a\nb\n"},
		"array": {"", "application/json", "", `[{"message":"a"},{"message":"b"}]`,
			"a\nb\n"},
		"object": {"", "application/json; charset=utf-8", "",
			`{"@timestamp":"x","message":"a"}`, "a\n"},
		"fields": {"field=level,/m/x", "application/json", "",
			`[{"level":"warn","m":{"x":"a"}}]`, "warn a\n"},
		"text in field": {"field=m", "text/plain", "", `{"m":"a"}{"m":"b"}`, "a\nb\n"},
		"msgpack":       {"", "application/msgpack", "", "\x92\x01\x81\xa3log\xa1a", "a\n"},
		"libcurl":       {"", contract.MediaForm, "", "<13>1 a=b&c\n", "<13>1 a=b&c\n"},
		"gzip":          {"", "application/x-ndjson", "gzip", gzipped(t, `{"log":"a\n"}`), "a\n"},
		"zstd":          {"", "application/x-ndjson", "zstd", zstandard(t, `{"log":"a\n"}`), "a\n"},
		"text":          {"", "text/plain", "gzip", gzipped(t, "a\nb\n"), "a\nb\n"},
		"JSON text":     {"", "application/json", "gzip", gzipped(t, `{"text":"a\n"}`), "a\n"},
	} {
		session := strings.ReplaceAll(strings.ToLower(name), " ", "-")
		g.do("PUT", "/v1/sessions/"+session, nil)
		headers := []string{"User-Agent", "syslog-ng 3.38.1"}
		if c.coding != "" {
			headers = append(headers, "Content-Encoding", c.coding)
		}
		status, answer := g.ship("/v1/sessions/"+session+"/score?unit=line&"+c.query, c.media,
			c.body, headers...)
		require.Equal(t, http.StatusOK, status, "%s: %s", name, answer)
		require.Equal(t, c.want, g.told(session), name)
		require.Equal(t, strings.Count(c.want, "\n"), strings.Count(answer, `"type":"line"`), name)
	}
}

func TestScoreSaysWhereRecordsAreWrong(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	for _, c := range []struct{ media, coding, body, want string }{
		{"application/x-ndjson", "", `{"message":"a"}` + "\n{", "record 2, line 2, byte 17"},
		{"application/json", "", `[{"message":"a"},`, "byte"},
		{"application/msgpack", "", "\xc1", "record 1, byte 0"},
		{"application/x-ndjson", "gzip", "no gzip", "not valid gzip"},
		{"application/x-ndjson", "gzip", gzipped(t, strings.Repeat("7\n", 99))[:20],
			"not valid gzip"},
		{"application/x-ndjson", "zstd", "no zstd", "not valid zstd"},
	} {
		headers := []string{}
		if c.coding != "" {
			headers = append(headers, "Content-Encoding", c.coding)
		}
		status, answer := g.ship("/v1/sessions/s/score", c.media, c.body, headers...)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, c.want)
	}
	require.Empty(t, g.told("s"))
	resp := g.do("POST", "/v1/sessions/s/score", strings.NewReader("a=b"), "Content-Type",
		contract.MediaForm,
		"User-Agent", "curl/8.0")
	requireProblem(t, resp, api.ProblemUnsupportedMediaType)
	resp = g.do("POST", "/v1/sessions/s/score", strings.NewReader("x"), "Content-Encoding", "br")
	requireProblem(t, resp, api.ProblemUnsupportedMediaType)
	requireProblem(t, g.json("/v1/sessions/s/score", `{"txt":"x"}`), api.ProblemInvalidField)
	requireProblem(t, g.text("/v1/sessions/s/score?once=body&offset=0", "x"),
		api.ProblemInvalidParameter)
}

func TestCompressedBodiesAreBounded(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	large := strings.Repeat(`{"message":"a"}`+"\n", limits.LogBodyBytesMax/16+1)
	for _, c := range []struct{ path, media, body, coding string }{
		{"/v1/sessions/s/score", "application/x-ndjson", gzipped(t, large), "gzip"},
		{"/v1/sessions/s/score", "application/x-ndjson", zstandard(t, large), "zstd"},
		{"/v1/sessions/s/score", "application/json", gzipped(t, large), "gzip"},
		{"/v1/logs", contract.MediaProtobuf, gzipped(t, large), "gzip"},
		{"/loki/api/v1/push", contract.MediaJSON, zstandard(t, large), "zstd"},
	} {
		status, _ := g.ship(c.path, c.media, c.body, "Content-Encoding", c.coding)
		require.Equal(t, http.StatusRequestEntityTooLarge, status, c)
	}
	require.Empty(t, g.told("s"))
}

func TestLongCompressedBodiesAreRead(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	long := make([]byte, limits.LogBodyBytesMax*15/16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(long) // Snappy cannot compress random bytes.
	status, answer := g.ship("/v1/sessions/s/score", contract.MediaMsgpack,
		zstandard(t, strings.Repeat("\xc1", limits.LogBodyBytesMax)), "Content-Encoding", "zstd")
	require.Equal(t, http.StatusBadRequest, status, answer)
	status, answer = g.ship("/loki/api/v1/push", contract.MediaProtobuf,
		string(snappy.Encode(nil, append([]byte("\x07"), long...))))
	require.Equal(t, http.StatusBadRequest, status, answer)
}

// The slow bodies use all memory for decompressors. An uncompressed body needs no decompressor and
// is read at once.
func TestSlowCompressedBodiesKeepNobodyOut(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	post := func(media, coding string, body io.Reader) int {
		r := httptest.NewRequestWithContext(t.Context(), "POST",
			"http://localhost/v1/sessions/s-0001/score", body)
		r.Header.Set("Content-Type", media)
		r.Header.Set("Content-Encoding", coding)
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		return w.Code
	}
	var all sync.WaitGroup
	var ends []*io.PipeWriter
	for range limits.ZstdMemoryMax / limits.ZstdBytes {
		body, end := io.Pipe()
		ends = append(ends, end)
		all.Go(func() { post(contract.MediaNDJSON, "zstd", body) })
		_, err := io.WriteString(end, zstandard(t, "{")[:5])
		require.NoError(t, err)
	}
	long := strings.NewReader(strings.Repeat("\xc1", limits.LogBodyBytesMax))
	require.Equal(t, http.StatusBadRequest, post(contract.MediaMsgpack, "identity", long))
	for _, end := range ends {
		end.Close()
	}
	all.Wait()
	require.NoError(t, s.Drain(t.Context()))
}

func TestDecompressedBytesAreCharged(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "k", Limits: keys.Limits{BytesPerSecond: 1 << 13}})
	g := newShipRig(t, Options{Keys: ring.Ring})
	g.key = ring.token["k"]
	g.do("PUT", "/v1/sessions/s", nil)
	status, answer := g.ship("/v1/sessions/s/score", contract.MediaNDJSON,
		gzipped(t, strings.Repeat("x", 1<<18)), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusBadRequest, status, answer)
	requireProblem(t, g.text("/v1/sessions/s/score", "x"), api.ProblemKeyRateLimit)
}

// Records are read before the parameters are validated. So the parameter field has an earlier,
// separate limit, because many fields would make reading slow.
func TestFieldsOfRecordsAreFew(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	for field, want := range map[string]int{
		"a" + strings.Repeat(",a", limits.FieldPartsMax-1): http.StatusOK,
		"a" + strings.Repeat(",a", limits.FieldPartsMax):   http.StatusBadRequest,
		strings.Repeat("/a", limits.FieldPartsMax):         http.StatusBadRequest,
		strings.Repeat("a", limits.FieldBytesMax+1):        http.StatusBadRequest,
	} {
		status, answer := g.ship("/v1/sessions/s/score?field="+field, "application/x-ndjson",
			`{"a":1}`)
		require.Equal(t, want, status, answer)
	}
}

func TestRepeatedScoreIsRecognized(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	send := func(query string, headers ...string) api.SummaryEvent {
		status, answer := g.ship("/v1/sessions/s/score"+query, "text/plain", "a", headers...)
		require.Equal(t, http.StatusOK, status, answer)
		var s api.SummaryEvent
		require.NoError(t, json.Unmarshal([]byte(answer), &s))
		return s
	}
	for i, c := range []struct {
		query   string
		headers []string
		want    *bool
	}{
		{"", []string{"Idempotency-Key", "1"}, nil},
		{"", []string{"Idempotency-Key", "1"}, new(true)},
		{"", []string{"Idempotency-Key", "2"}, nil},
		{"?once=body", nil, nil},
		{"?once=body", nil, new(true)},
	} {
		require.Equal(t, c.want, send(c.query, c.headers...).Duplicate, i)
	}
	require.Equal(t, "a\na\na\n", g.told("s"))
}

// gonePeer is a response whose client has left.
type gonePeer struct{ http.ResponseWriter }

func (gonePeer) Write([]byte) (int, error) { return 0, errors.New("the client has left") }

func TestDeliveryWithUpdatesOutlivesItsClient(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"settings":{"chunk":7}}`)
	text := strings.Repeat("one line\n", 9)
	r := httptest.NewRequest("POST", "http://localhost"+path+"/score?updates=true",
		strings.NewReader(text))
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Accept", contract.MediaNDJSON)
	r.Header.Set("Idempotency-Key", "a")
	serve(g.server, gonePeer{httptest.NewRecorder()}, r)
	require.Equal(t, text, g.told(strings.TrimPrefix(path, "/v1/sessions/")))
}

func TestShippersOfOneSessionQueue(t *testing.T) {
	g := newShipRig(t, Options{})
	g.do("PUT", "/v1/sessions/s", nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]int{}
	for worker := range 8 {
		all.Go(func() {
			for i := range 10 {
				body := fmt.Sprintf(`{"message":"line %d-%d"}`, worker, i)
				resp, err := g.plain.Post(g.url+"/v1/sessions/s/score", "application/x-ndjson",
					strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				mu.Lock()
				seen[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 80}, seen)
	text := g.told("s")
	for worker := range 8 {
		at := -1
		for i := range 10 {
			line := fmt.Sprintf("line %d-%d\n", worker, i)
			require.Equal(t, 1, strings.Count(text, line))
			require.Greater(t, strings.Index(text, line), at, "in the order of each shipper")
			at = strings.Index(text, line)
		}
	}
}

func TestFullQueueIsAnswered429(t *testing.T) {
	g := newRig(t, Options{Logs: handler.LogSessions{Make: true}})
	path := g.create("{}")
	g.fake.sessions["s-0001"].feeding.Lock()
	resp := g.text(path+"/score", "x\n")
	requireProblem(t, resp, api.ProblemSessionQueueFull)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	resp = g.do("POST", path+"/score", strings.NewReader("{}"), "Content-Type",
		"application/x-ndjson")
	requireProblem(t, resp, api.ProblemSessionQueueFull)
	g.do("PUT", "/v1/sessions/web", nil)
	g.fake.sessions["s-0002"].feeding.Lock()
	resp = g.json("/loki/api/v1/push",
		`{"streams":[{"stream":{"app":"web"},"values":[["1","x"]]}]}`)
	requireProblem(t, resp, api.ProblemSessionQueueFull)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
}

// Shippers discard logs at a status that they do not retry. A temporary failure, such as a full
// disk, therefore gets status 503.
func TestShippersAreToldToComeAgain(t *testing.T) {
	g := newRig(t, Options{Logs: handler.LogSessions{Make: true}})
	body := `{"streams":[{"stream":{"app":"web"},"values":[["1","x"]]}]}`
	for _, fail := range []error{
		session.ErrNoSpace, session.ErrUnavailable, session.ErrOverloaded,
		&session.DiskAlarmError{}, session.ErrUnknown,
	} {
		g.fake.delivering = fail
		resp := g.json("/loki/api/v1/push", body)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, fail)
		require.NotEmpty(t, resp.Header.Get("Retry-After"), fail)
	}
	g.fake.delivering = &session.LimitError{Offset: 16, Max: 16}
	require.Equal(t, http.StatusBadRequest, g.json("/loki/api/v1/push", body).StatusCode)
	g.fake.delivering = nil
	require.Equal(t, http.StatusNoContent, g.json("/loki/api/v1/push", body).StatusCode)
}

func TestLogsOfKeysAreTheirOwn(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "one"}, keys.Key{Name: "two"})
	g := newShipRig(t, Options{Keys: ring.Ring})
	for _, name := range []string{"one", "two"} {
		g.key = ring.token[name]
		status, _ := g.ship("/v1/logs", contract.MediaProtobuf,
			otlp(t, "web", record(1, "of "+name)))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "of "+name+"\n", g.told("web"))
	}
	g.key = "lms_none"
	status, _ := g.ship("/v1/logs", contract.MediaProtobuf, otlp(t, "web", record(1, "x")))
	require.Equal(t, http.StatusUnauthorized, status)
}

// A shipper's request has logs of many sessions, which may be on several servers. Each session
// gets its own logs once, even if the request is repeated to another server.
func TestLogsOfSessionsElsewhereAreFedThere(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "one"})
	far := newShipRig(t, Options{Keys: ring.Ring})
	far.key = ring.token["one"]
	require.Equal(t, http.StatusCreated, far.send("PUT", "/v1/sessions/web",
		`{"settings":{"method":"static","companion":false}}`).StatusCode)
	places := &elsewhere{addr: far.url, only: "web"}
	near := newShipRig(t, Options{Keys: ring.Ring, Places: places})
	near.key = far.key
	body := func(time uint64) string {
		return otlp(t, "web", record(time, "one"), record(time+1, "two")) +
			otlp(t, "db", record(time, "three"))
	}
	for _, g := range []*rig{near, far, near} {
		status, answer := g.ship("/v1/logs", contract.MediaProtobuf, body(1))
		require.Equal(t, http.StatusOK, status, answer)
	}
	require.Equal(t, "one\ntwo\n", far.told("web"))
	require.Equal(t, "three\n", near.told("db"))
	loki := `{"streams":[{"stream":{"app":"web"},"values":[["5","four"]]}]}`
	require.Equal(t, http.StatusNoContent, near.json("/loki/api/v1/push", loki).StatusCode)
	status, _ := near.ship("/v1/logs", contract.MediaProtobuf, otlp(t, "web", record(0, "five")))
	require.Equal(t, http.StatusOK, status, "without a time")
	require.Equal(t, "one\ntwo\nfour\nfive\n", far.told("web"))

	for _, away := range []func(){
		func() { places.addr = "http://127.0.0.1:1" }, // No server listens at this address.
		func() { places.err = errors.New("the database is away") },
	} {
		away()
		resp := near.json("/loki/api/v1/push", loki)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
	}
}

// The status from the session's server reaches the shipper, which retries or gives up accordingly.
func TestLogsRefusedElsewhereAreRefused(t *testing.T) {
	far := newRig(t, Options{})
	near := newRig(t, Options{Places: &elsewhere{addr: far.url}})
	far.create("{}")
	body := `{"streams":[{"stream":{"app":"s-0001"},"values":[["1","x"]]}]}`
	for fail, want := range map[error]int{
		session.ErrQueueFull:                     http.StatusTooManyRequests,
		session.ErrUnavailable:                   http.StatusServiceUnavailable,
		&session.LimitError{Offset: 16, Max: 16}: http.StatusBadRequest,
	} {
		far.fake.delivering = fail
		require.Equal(t, want, near.json("/loki/api/v1/push", body).StatusCode, fail)
	}
	far.fake.delivering = session.ErrNotFound // The session was deleted on the other server.
	status, answer := near.ship("/loki/api/v1/push", contract.MediaJSON, body)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "creates no sessions for logs")

	locked := newRig(t, Options{Keys: newTestKeys(t, keys.Key{Name: "one"}).Ring})
	near = newRig(t, Options{Places: &elsewhere{addr: locked.url}})
	require.Equal(t, http.StatusServiceUnavailable,
		near.json("/loki/api/v1/push", body).StatusCode, "the keys there may be older")
}

// The session's server feeds all lines of a forwarded request, even if the shipper disconnects. A
// request may wait only a limited time for its turn. The session's server gets the remaining part
// of this time.
func TestLogsElsewhereAreFedToTheirEnd(t *testing.T) {
	began, left, ended := make(chan *http.Request, 1), make(chan struct{}), make(chan error, 1)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		began <- r
		<-left
		time.Sleep(200 * time.Millisecond)
		ended <- errors.Join(err, r.Context().Err())
	}))
	defer far.Close()
	near := newRig(t, Options{Places: &elsewhere{addr: far.URL}})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", near.url+"/loki/api/v1/push",
		strings.NewReader(`{"streams":[{"stream":{"app":"web"},"values":[["1","x"]]}]}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", contract.MediaJSON)
	go func() {
		if resp, err := near.plain.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	wait, err := time.ParseDuration((<-began).URL.Query().Get("wait"))
	require.NoError(t, err)
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, limits.FeedWait)
	leave()
	close(left)
	require.NoError(t, <-ended)
}
