//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// settingsKind is a way in which sessions of the test are made.
type settingsKind struct {
	method   string
	chunk    int
	baseline bool
}

var settingsKinds = []settingsKind{
	{stream.SparseMeta, 16, false}, {stream.SparseMeta, 16, false}, {stream.SparseMeta, 7, true}, {stream.DynamicRMS, 16, false},
	{stream.Cache, 5, false}, {stream.Static, 40, true},
}

func (k settingsKind) settings(m *model.Model, seed uint64) stream.Settings {
	set := stream.Defaults(m)
	set.Method, set.Chunk, set.Baseline, set.Seed = k.method, k.chunk, k.baseline, seed
	return set
}

// twin is what a client knows of a session, and the stream that nothing ever happens to.
type twin struct {
	id       string
	kind     settingsKind
	set      stream.Settings
	text     []byte // of the session, what is still to come included
	acked    int    // bytes of it that were acknowledged
	sent     int    // bytes of it that may be in the session
	tail     bool   // without its old text
	deleting bool   // asked for, and perhaps done
	compared int    // offset at which the state was

	stream *stream.Stream // never beyond acked
}

func newTwin(m *model.Model, k settingsKind, seed uint64, text []byte) *twin {
	set := k.settings(m, seed)
	return &twin{kind: k, set: set, text: text, stream: stream.New(m, set)}
}

// totals are what a session tells of itself.
type totals struct {
	Bytes        int
	Bits         float64
	BaselineBits *float64 `json:"baseline_bits"`
}

// errCut is the end of a request that was cut off.
var errCut = errors.New("cut off")

// errNotFound is a session that is not there.
var errNotFound = errors.New("not found")

// client feeds sessions of its own, and notices everything.
type client struct {
	c        *crash
	rand     *rand.Rand
	worker   *stream.Worker
	sessions []*twin
	deleted  []string
	url      string
	http     *http.Client

	bytes, answers, cuts, forks int
}

func newClient(c *crash, seed, n uint64) *client {
	return &client{c: c, rand: rand.New(rand.NewPCG(seed, n)), worker: stream.NewWorker(c.model, 1)}
}

// run is a client's day: it finds out what became of its sessions, and goes on with them until the
// server is killed.
func (cl *client) run(p *serverProcess) {
	err := cl.askAll(p)
	for err == nil {
		err = cl.step()
	}
	cl.http.CloseIdleConnections()
	if !errors.Is(err, errCut) || !p.cut.Load() {
		cl.c.t.Error(err)
	}
	cl.cuts++
}

// askAll compares all sessions with what was acknowledged.
func (cl *client) askAll(p *serverProcess) error {
	cl.url, cl.http = p.url, &http.Client{Transport: &http.Transport{}}
	for _, tw := range slices.Clone(cl.sessions) {
		if err := cl.ask(tw); err != nil {
			return err
		}
	}
	for _, id := range cl.deleted {
		if err := cl.get("/v1/sessions/"+id, nil); !errors.Is(err, errNotFound) {
			return fmt.Errorf("session %s was deleted: %w", id, orThere(err))
		}
	}
	cl.http.CloseIdleConnections()
	return nil
}

func orThere(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	return err
}

// step is one request.
func (cl *client) step() error {
	if len(cl.sessions) < 3 {
		return cl.create()
	}
	tw := cl.sessions[cl.rand.IntN(len(cl.sessions))]
	room := len(tw.text) - tw.acked
	switch chance := cl.rand.IntN(100); {
	case tw.deleting, room == 0 && tw.compared == tw.acked, chance == 0:
		return cl.delete(tw)
	case room == 0, chance < 8:
		return cl.complete(tw, 0)
	case chance < 10 && len(cl.sessions) < 5:
		return cl.fork(tw)
	case chance < 14:
		return cl.complete(tw, 1+cl.rand.IntN(min(40, room)))
	default:
		return cl.score(tw, 1+cl.rand.IntN(min(400, room)))
	}
}

// do makes a request and reads the answer as JSON values, one after the other.
func (cl *client) do(method, path, contentType string, body io.Reader, each func(*json.Decoder) error) error {
	r, err := http.NewRequest(method, cl.url+path, body)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", contentType)
	}
	if contentType == "text/plain" {
		r.Header.Set("Accept", "application/x-ndjson")
	}
	answer, err := cl.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return refusal(answer)
	}
	for d := json.NewDecoder(answer.Body); ; {
		err := each(d)
		if err == io.EOF {
			cl.answers++
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// refusal is an answer that is none.
func refusal(answer *http.Response) error {
	var problem struct{ Type, Detail string }
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	switch {
	case strings.HasSuffix(problem.Type, "draining"):
		return errCut
	case answer.StatusCode == http.StatusNotFound:
		return errNotFound
	}
	return fmt.Errorf("%s: %s %s", answer.Request.URL, problem.Type, problem.Detail)
}

// one reads a single JSON value.
func one(into any) func(*json.Decoder) error {
	read := false
	return func(d *json.Decoder) error {
		if read {
			_, err := d.Token()
			return ended(err)
		}
		read = true
		if into == nil {
			return io.EOF
		}
		return notEnded(d.Decode(into))
	}
}

// ended and notEnded tell an answer that was cut off from one that has come to its end.
func ended(err error) error {
	if err == nil {
		return errors.New("more than an answer")
	}
	if err != io.EOF {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return err
}

func notEnded(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return nil
}

func (cl *client) get(path string, into any) error { return cl.do("GET", path, "", nil, one(into)) }

func (cl *client) post(path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return cl.do("POST", path, "application/json", bytes.NewReader(text), one(into))
}

// create makes a session and the twin of it. If the answer is lost, nobody will ever ask for that
// session.
func (cl *client) create() error {
	k := settingsKinds[cl.rand.IntN(len(settingsKinds))]
	tw := newTwin(cl.c.model, k, cl.rand.Uint64N(session.SeedMax), randomText(cl.rand, 2000+cl.rand.IntN(6000)))
	var made struct{ ID string }
	err := cl.post("/v1/sessions", map[string]any{"seed": tw.set.Seed,
		"settings": map[string]any{"method": k.method, "chunk": k.chunk, "baseline": k.baseline}}, &made)
	if err == nil {
		tw.id = made.ID
		cl.sessions = append(cl.sessions, tw)
	}
	return err
}

// randomText is like a log: no two are alike, and there is something to learn.
func randomText(r *rand.Rand, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, "%s /item/%d -> %d\n", []string{"GET", "PUT", "HEAD"}[r.IntN(3)], r.IntN(1000), 200+r.IntN(3))
	}
	b.Truncate(size)
	return b.Bytes()
}

// ask asks for the offset after a cut, to go on from there.
func (cl *client) ask(tw *twin) error {
	var info struct {
		Offset int
		Totals totals
	}
	err := cl.get("/v1/sessions/"+tw.id, &info)
	if errors.Is(err, errNotFound) && tw.deleting {
		cl.forget(tw)
		return nil
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", tw.id, err)
	}
	if err := cl.told(tw, info.Offset, info.Totals); err != nil {
		return err
	}
	tw.sent = tw.acked
	return nil
}

func (cl *client) forget(tw *twin) {
	cl.sessions = slices.DeleteFunc(cl.sessions, func(x *twin) bool { return x == tw })
	cl.deleted = append(cl.deleted, tw.id)
	cl.deleted = cl.deleted[max(0, len(cl.deleted)-3):]
}

// delete deletes a session; if the answer is lost it is there or not.
func (cl *client) delete(tw *twin) error {
	tw.deleting = true
	err := cl.do("DELETE", "/v1/sessions/"+tw.id, "", nil, one(nil))
	if err == nil || errors.Is(err, errNotFound) {
		cl.forget(tw)
		return nil
	}
	return err
}

// told holds what the server says of a session against what it said before and against the twin.
func (cl *client) told(tw *twin, offset int, t totals) error {
	if offset < tw.acked || offset > tw.sent {
		return fmt.Errorf("session %s is at offset %d, expected %d, which was acknowledged, to %d, which was sent", tw.id, offset, tw.acked, tw.sent)
	}
	cl.c.events.Add(1)
	cl.bytes += offset - tw.acked
	tw.acked = offset
	cl.worker.Feed(tw.stream, tw.text[tw.stream.Tally.Bytes:offset], nil)
	if offset != t.Bytes || math.Float64bits(t.Bits) != math.Float64bits(tw.stream.Tally.Bits) {
		return fmt.Errorf("session %s (%+v) at offset %d: %+v, expected %v bits", tw.id, tw.kind, offset, t, tw.stream.Tally.Bits)
	}
	if tw.kind.baseline && (t.BaselineBits == nil || math.Float64bits(*t.BaselineBits) != math.Float64bits(tw.stream.Baseline.Bits)) {
		return fmt.Errorf("session %s at offset %d: %+v, expected %v bits of the baseline", tw.id, offset, t, tw.stream.Baseline.Bits)
	}
	return nil
}

// score feeds the next n bytes. Every event acknowledges some.
func (cl *client) score(tw *twin, n int) error {
	path := fmt.Sprintf("/v1/sessions/%s/score?offset=%d", tw.id, tw.acked)
	text := io.Reader(bytes.NewReader(tw.text[tw.acked : tw.acked+n]))
	if cl.rand.IntN(2) == 0 {
		text = io.MultiReader(text) // of a length that net/http does not know: chunked
	}
	tw.sent = tw.acked + n
	summed := false
	return cl.do("POST", path, "text/plain", text, func(d *json.Decoder) error {
		var event struct {
			Type    string
			Totals  totals
			Problem struct{ Type string }
		}
		err := d.Decode(&event)
		switch {
		case err == io.EOF && summed && tw.acked == tw.sent:
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", errCut, err)
		case event.Type == "error" && strings.HasSuffix(event.Problem.Type, "draining"):
			return errCut
		case event.Type != "chunk" && event.Type != "summary", summed:
			return fmt.Errorf("session %s: event %+v", tw.id, event)
		}
		summed = event.Type == "summary"
		return cl.told(tw, event.Totals.Bytes, event.Totals)
	})
}

// complete lets the session write some text, after a prompt that stays in the session.
func (cl *client) complete(tw *twin, prompt int) error {
	const tokens = 6
	request := map[string]any{"max_tokens": tokens, "seed": cl.rand.Uint64N(1000), "commit": "prompt", "prompt": string(tw.text[tw.acked : tw.acked+prompt])}
	tw.sent = tw.acked + prompt
	var done struct {
		Text       string
		TextBase64 []byte `json:"text_base64"`
		Offset     int
	}
	if err := cl.post("/v1/sessions/"+tw.id+"/complete", request, &done); err != nil {
		return err
	}
	if done.Offset != tw.sent {
		return fmt.Errorf("session %s is at offset %d, expected %d", tw.id, done.Offset, tw.sent)
	}
	cl.bytes += prompt
	tw.acked = tw.sent
	cl.worker.Feed(tw.stream, tw.text[tw.stream.Tally.Bytes:tw.acked], nil)
	var want []byte
	sampler := txl.NewSampler(txl.Sampling{Temperature: 1, TopP: 1, Seed: request["seed"].(uint64)}, cl.c.model.LM.Config.Vocab)
	cl.worker.Generate(tw.stream.Frozen(), sampler, func(id int32, _ float32) bool {
		want = append(want, byte(id))
		return len(want) < tokens
	})
	got := []byte(done.Text)
	if done.TextBase64 != nil { // it is no UTF-8
		got = done.TextBase64
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("session %s at offset %d goes on %q, expected %q", tw.id, tw.acked, got, want)
	}
	return nil
}

// compare compares all of the client's sessions, in the folder that a killed server left, with
// their twins, to the last bit of their states.
func (cl *client) compare(mg *session.Manager) {
	t, who := cl.c.t, session.Caller{Admin: true}
	for _, tw := range slices.Clone(cl.sessions) {
		info, err := mg.Get(who, tw.id)
		if errors.Is(err, session.ErrNotFound) && tw.deleting {
			cl.forget(tw)
			continue
		}
		require.NoError(t, err, tw.id)
		require.NoError(t, cl.told(tw, int(info.Offset), totals{int(info.Offset), info.Bits, info.BaselineBits}))
		var file bytes.Buffer
		require.NoError(t, mg.Export(t.Context(), who, tw.id, &file, nil))
		tw.sameState(cl.c, &file)
		cl.c.compared++
		tw.compared = tw.acked
	}
	for _, id := range cl.deleted {
		_, err := mg.Get(who, id)
		require.ErrorIs(t, err, session.ErrNotFound)
	}
}

// sameState compares an export's state with the twin's.
func (tw *twin) sameState(c *crash, export io.Reader) {
	f, err := weights.Read(export, weights.Limits{})
	require.NoError(c.t, err)
	want, err := tw.stream.Snapshot()
	require.NoError(c.t, err)
	for key, text := range want.Metadata {
		require.Equal(c.t, text, f.Metadata[key], "session %s (%+v)", tw.id, tw.kind)
	}
	for _, x := range want.Tensors {
		got, ok := f.Tensor(x.Name)
		require.True(c.t, ok)
		require.Equal(c.t, x, *got, "session %s (%+v), %s", tw.id, tw.kind, x.Name)
	}
}

// forkOf draws a fork of a session: at any offset, and perhaps with a tail only; of a tail at the
// end, the only offset that is always there.
func (cl *client) forkOf(tw *twin) (at int, tail bool, f *twin) {
	at, tail = cl.rand.IntN(tw.acked+1), cl.rand.IntN(2) == 0
	if tw.tail {
		at, tail = tw.acked, true
	}
	f = newTwin(cl.c.model, tw.kind, tw.set.Seed, slices.Concat(tw.text[:at], randomText(cl.rand, 1000+cl.rand.IntN(3000))))
	f.tail, f.sent = tail, at
	return at, tail, f
}

// fork forks a session. If the answer is lost, nobody will ever ask for the fork.
func (cl *client) fork(tw *twin) error {
	at, tail, f := cl.forkOf(tw)
	request := map[string]any{"at_offset": at}
	if tail {
		request["history"] = session.HistoryTail
	}
	var made struct {
		ID     string
		Offset int
		Totals totals
	}
	if err := cl.post("/v1/sessions/"+tw.id+"/fork", request, &made); err != nil {
		return err
	}
	f.id = made.ID
	cl.sessions = append(cl.sessions, f)
	cl.forks++
	return cl.told(f, made.Offset, made.Totals)
}
