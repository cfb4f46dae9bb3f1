package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

// updateExamples, set to anything, has the tests write what servers answer into the contract, in the
// place of the examples there.
const updateExamples = "LMSERVE_UPDATE_EXAMPLES"

// How many of the bytes of a file or a page an example shows.
const (
	pageShown = 24
	zstdShown = 4 // those that are the same in every such file
)

// shown is an example as the contract has it.
type shown struct {
	Summary string            `yaml:"summary,omitempty"`
	Request string            `yaml:"x-request,omitempty"`
	Headers map[string]string `yaml:"x-headers,omitempty"`
	Status  int               `yaml:"x-status,omitempty"`
	Value   yaml.Node         `yaml:"value"`
}

// newExamples are those that tests have met, when they are to be written.
var newExamples = struct {
	sync.Mutex
	named map[string]shown
}{named: map[string]shown{}}

// note keeps an example to be written, if that is asked for.
func note(name string, s shown) (updating bool) {
	if os.Getenv(updateExamples) == "" {
		return false
	}
	newExamples.Lock()
	defer newExamples.Unlock()
	newExamples.named[name] = s
	return true
}

// writeExamples puts the examples that tests have met into the contract, beside those they have not.
func writeExamples() error {
	const file, begin, end = "../api/openapi.yaml", "# BEGIN GENERATED examples", "# END GENERATED examples"
	if len(newExamples.named) == 0 {
		return nil
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, _ := strings.Cut(string(old), begin)
	head, rest, _ := strings.Cut(rest, "\n")
	part, after, ok := strings.Cut(rest, "    "+end)
	if !ok {
		return fmt.Errorf("%s: expected lines with %q and %q", file, begin, end)
	}
	all := map[string]shown{}
	if err := yaml.Unmarshal([]byte(part), &all); err != nil {
		return err
	}
	maps.Copy(all, newExamples.named)
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var one bytes.Buffer
		e := yaml.NewEncoder(&one)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(map[string]shown{name: all[name]}), e.Close()); err != nil {
			return err
		}
		for line := range strings.Lines(one.String()) {
			if strings.TrimSpace(line) != "" {
				line = "    " + strings.TrimRight(line, " \n") + "\n"
			}
			b.WriteString(line)
		}
	}
	text := before + begin + head + "\n" + b.String() + "    " + end + after
	return os.WriteFile(file, []byte(text), 0o644)
}

// newStoryRig is a rig with the embedded model and an empty data folder.
func newStoryRig(t *testing.T) *rig {
	t.Helper()
	store, err := sessionlog.Open(t.TempDir(), sessionlog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	m, err := model.Default()
	require.NoError(t, err)
	sessions, err := session.NewManager(m, session.Options{Store: store, Threads: 2})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newRigOn(t, sessions, Options{}, l, &http.Transport{})
}

// Every example of an operation in the contract is what a server answers to the request beside it;
// what depends on the moment or on rounding may differ.
func TestExamplesAreWhatAServerAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	g := newStoryRig(t)
	g.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	var export []byte
	etag := ""
	for _, x := range exchanges {
		method, path := x.split()
		var body io.Reader
		if x.body != "" {
			body = strings.NewReader(strings.ReplaceAll(x.body, "{export}", string(export)))
		}
		headers := slices.Clone(x.headers)
		for i := range headers {
			headers[i] = strings.ReplaceAll(headers[i], "{etag}", etag)
		}
		resp := g.do(method, path, body, headers...)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		media := resp.Header.Get("Content-Type")
		if media == contract.MediaZstd {
			export = raw
		}
		if tag := resp.Header.Get("ETag"); tag != "" {
			etag = tag
		}
		x.check(t, resp.StatusCode, media, raw)
	}
	names := slices.Collect(maps.Keys(document(t).Components.Examples))
	for _, name := range names {
		known := strings.HasPrefix(name, "problem.")
		for _, x := range exchanges {
			known = known || strings.TrimSuffix(strings.TrimSuffix(name, ".request"), ".answer") == x.name
		}
		require.True(t, known, "no exchange makes the example %s", name)
	}
}

// check holds an answer, and the request that got it, against the contract's example.
func (x exchange) check(t *testing.T, status int, media string, raw []byte) {
	t.Helper()
	if x.body != "" {
		requireExample(t, x.name+".request", shown{Summary: x.summary}, requestMedia(x), []byte(x.body))
	}
	answer := shown{Summary: x.summary, Request: x.request, Status: status, Headers: map[string]string{}}
	for i := 0; i < len(x.headers); i += 2 {
		answer.Headers[x.headers[i]] = x.headers[i+1]
	}
	requireExample(t, x.name+".answer", answer, media, raw)
}

// requestMedia is the media type of the request's body; "" if that is a file.
func requestMedia(x exchange) string {
	i := slices.Index(x.headers, "Content-Type")
	if x.headers[i+1] == jsonBody && json.Valid([]byte(x.body)) {
		return jsonBody
	}
	return textBody
}

// requireExample holds what was sent or answered against an example of the contract.
func requireExample(t *testing.T, name string, s shown, media string, raw []byte) {
	t.Helper()
	s.Value = valueOf(t, media, raw)
	if note(name, s) {
		return
	}
	ref := document(t).Components.Examples[name]
	require.NotNil(t, ref, "the contract has no example %s; %s=1 makes it", name, updateExamples)
	found := ref.Value
	require.Equal(t, s.Summary, found.Summary, name)
	if s.Request != "" {
		require.Equal(t, s.Request, found.Extensions["x-request"], name)
		require.EqualValues(t, s.Status, found.Extensions["x-status"], name)
	}
	var got any
	require.NoError(t, s.Value.Decode(&got))
	requireAlike(t, name, "", jsonValue(t, found.Value), jsonValue(t, got))
}

// valueOf is a body as an example shows it: JSON as a value, text as it is, of a file or a page the
// first bytes, each as a character.
func valueOf(t *testing.T, media string, raw []byte) yaml.Node {
	t.Helper()
	var n yaml.Node
	switch media {
	case contract.MediaJSON, contract.MediaProblem:
		var document yaml.Node
		require.NoError(t, yaml.Unmarshal(raw, &document))
		n = *document.Content[0]
		asBlocks(&n)
		return n
	case contract.MediaEventStream, contract.MediaNDJSON, textBody:
		n.SetString(string(raw))
	default:
		most := pageShown
		if media == contract.MediaZstd {
			most = zstdShown
		}
		var runes []rune
		for _, b := range raw[:min(len(raw), most)] {
			runes = append(runes, rune(b))
		}
		n.SetString(string(runes))
	}
	return n
}

// asBlocks writes objects a field a line, and lists of plain values on one line.
func asBlocks(n *yaml.Node) {
	flat := n.Kind == yaml.SequenceNode || len(n.Content) == 0
	for i, child := range n.Content {
		asBlocks(child)
		if child.Kind != yaml.ScalarNode {
			flat = false
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			child.Style = 0
		}
	}
	if n.Kind != yaml.ScalarNode && !flat {
		n.Style = 0
	}
}

// jsonValue is a value as encoding/json has it, with numbers as they are written.
func jsonValue(t *testing.T, v any) any {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return v2(t, raw)
}

func v2(t *testing.T, raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

// varies are the fields that depend on the moment, on the machine's arithmetic or on the model.
var varies = regexp.MustCompile(`(^|\.)(id|next|model|request_id|created|created_at|last_used_at|elapsed_ms|memory_bytes|` +
	`disk_bytes|numerics|bits|baseline_bits|bpc|baseline_bpc|perplexity|fast_rms|p|rank|from|to|text|text_base64|` +
	`token_bits|logprobs|token_logprobs|top_logprobs|card|message|detail|parameters)$`)

// requireAlike holds what was found against an example: the same fields of the same kinds, and the
// same values but where they vary.
func requireAlike(t *testing.T, name, path string, want, got any) {
	t.Helper()
	at := name + ": " + path
	require.Equal(t, fmt.Sprintf("%T", want), fmt.Sprintf("%T", got), at)
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch want := want.(type) {
	case map[string]any:
		if varies.MatchString(last) && last != "logprobs" {
			return
		}
		got := got.(map[string]any)
		require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), at)
		for key := range want {
			requireAlike(t, name, strings.TrimPrefix(path+"."+key, "."), want[key], got[key])
		}
	case []any:
		if varies.MatchString(last) {
			return
		}
		got := got.([]any)
		require.Len(t, got, len(want), at)
		for i := range want {
			requireAlike(t, name, path, want[i], got[i])
		}
	case string:
		if path == "" {
			requireTextAlike(t, name, want, got.(string))
		} else if !varies.MatchString(last) {
			require.Equal(t, want, got, at)
		}
	default:
		if !varies.MatchString(last) {
			require.Equal(t, want, got, at)
		}
	}
}

// requireTextAlike compares two streams event by event, where pieces of a text may be fewer or more,
// and other texts as they are.
func requireTextAlike(t *testing.T, name, want, got string) {
	t.Helper()
	if !strings.HasPrefix(want, "{") && !strings.HasPrefix(want, "event: ") && !strings.HasPrefix(want, "data: ") {
		require.Equal(t, want, got, name)
		return
	}
	wantEvents, gotEvents := eventsOf(t, want), eventsOf(t, got)
	require.Len(t, gotEvents, len(wantEvents), name)
	for i := range wantEvents {
		requireAlike(t, name, fmt.Sprintf("[%d]", i), wantEvents[i], gotEvents[i])
	}
}

// eventsOf reads the objects of a stream, of pieces in a row the first.
func eventsOf(t *testing.T, text string) (events []any) {
	was := ""
	for line := range strings.Lines(text) {
		raw := []byte(strings.TrimSpace(strings.TrimPrefix(line, "data: ")))
		if !json.Valid(raw) || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		object := v2(t, raw).(map[string]any)
		kind := fmt.Sprint(object["type"], object["choices"] != nil && len(object["choices"].([]any)) > 0)
		if kind == was && (object["type"] == "piece" || object["choices"] != nil) {
			events[len(events)-1] = object // the last says how the text ends
			continue
		}
		was = kind
		events = append(events, object)
	}
	return events
}

// Each operation has an example of each body that it takes and of each that it gives, and each
// problem is shown where it is listed; all of them are what their schemas say.
func TestEveryOperationAndProblemHasExamples(t *testing.T) {
	doc := document(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				require.NotNil(t, p.Value.Example, "%s: the parameter %s", at, p.Value.Name)
			}
			if op.RequestBody != nil {
				requireContentExamples(t, at, op.RequestBody.Value.Content)
			}
			for status, response := range op.Responses.Map() {
				if strings.HasPrefix(status, "2") {
					requireContentExamples(t, at+" "+status, response.Value.Content)
				}
			}
			requireAnswers(t, at, op)
		}
	}
	quoted := regexp.MustCompile("`([a-z-]+)`")
	for name, response := range doc.Components.Responses {
		examples := response.Value.Content[contract.MediaProblem].Examples
		types, _, _ := strings.Cut(*response.Value.Description, ":")
		var want []string
		for _, match := range quoted.FindAllStringSubmatch(types, -1) {
			want = append(want, match[1])
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(examples)), name)
		requireContentExamples(t, name, response.Value.Content)
	}
	for kind := range problem.Kinds {
		name := "problem." + strings.TrimPrefix(string(kind), "urn:lmserve:problem:")
		require.NotNil(t, doc.Components.Examples[name], name)
	}
}

// requireContentExamples checks that there are examples, and that they are what the schema says.
func requireContentExamples(t *testing.T, at string, content openapi3.Content) {
	t.Helper()
	for media, m := range content {
		require.NotEmpty(t, m.Examples, "%s: %s", at, media)
		for name, ref := range m.Examples {
			values := []any{ref.Value.Value}
			if media == contract.MediaEventStream || media == contract.MediaNDJSON {
				values = eventsOf(t, ref.Value.Value.(string))
				require.NotEmpty(t, values, name)
			}
			for _, v := range values {
				raw, err := json.Marshal(v)
				require.NoError(t, err)
				var plain any
				require.NoError(t, json.Unmarshal(raw, &plain))
				require.NoError(t, m.Schema.Value.VisitJSON(plain), "%s: %s: example %s", at, media, name)
			}
		}
	}
}

// requireAnswers checks that every example of a request has its answer.
func requireAnswers(t *testing.T, at string, op *openapi3.Operation) {
	t.Helper()
	if op.RequestBody == nil {
		return
	}
	answers := map[string]bool{}
	for _, response := range op.Responses.Map() {
		for _, m := range response.Value.Content {
			for name := range m.Examples {
				answers[name] = true
			}
		}
	}
	for _, m := range op.RequestBody.Value.Content {
		for name := range m.Examples {
			require.True(t, answers[name], "%s: the request %s has no answer", at, name)
		}
	}
}

