//go:build unix

package crash

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

type operation struct {
	name     string
	share    int // relative frequency of the operation
	possible func(cl *crashClient, tw *twin) bool
	do       func(cl *crashClient, tw *twin) error
}

const sessionsMost = 6

func operations() []operation {
	room := func(cl *crashClient, _ *twin) bool { return len(cl.sessions) < sessionsMost }
	there := func(_ *crashClient, tw *twin) bool { return tw.id != "" && !tw.deleting }
	longer := func(cl *crashClient, tw *twin) bool {
		return there(cl, tw) &&
			tw.acked < len(tw.text)
	}
	both := func(cl *crashClient, tw *twin) bool { return room(cl, tw) && there(cl, tw) }
	exported := func(cl *crashClient, tw *twin) bool { return room(cl, tw) && len(cl.exports) > 0 }
	done := func(cl *crashClient, tw *twin) bool {
		return tw.deleting || there(cl, tw) && (len(cl.sessions) > sessionsMost/2 ||
			!longer(cl, tw))
	}
	return []operation{
		{"creating", 3, room, (*crashClient).create},
		{"feeding", 50, longer, (*crashClient).score},
		{"completing", 4, there, (*crashClient).complete},
		{"forking", 4, both, (*crashClient).fork},
		{"exporting", 3, there, (*crashClient).export},
		{"importing", 3, exported, (*crashClient).imports},
		{"deleting", 2, done, (*crashClient).delete},
		{"listing", 1, func(*crashClient, *twin) bool { return true }, (*crashClient).list},
		{"backing up", 1, func(*crashClient, *twin) bool { return true }, (*crashClient).back},
	}
}

// making sends a request that creates a session. After the answer, it adds the session to the
// client's sessions. If the answer is lost, a later listing shows whether the session exists.
func (cl *crashClient) making(tw *twin, ask func(into any) error) error {
	cl.lost = append(cl.lost, tw)
	cl.claim(tw, false)
	var made described
	err := ask(&made)
	if errors.Is(err, errCut) {
		return err
	}
	cl.lost = slices.DeleteFunc(cl.lost, func(x *twin) bool { return x == tw })
	if err != nil {
		return err
	}
	tw.id = made.ID
	cl.sessions = append(cl.sessions, tw)
	return cl.told(tw, made.Offset, made.Totals)
}

func (cl *crashClient) newLabel() string {
	cl.made++
	return fmt.Sprint(cl.name, "/", cl.made)
}

func (cl *crashClient) create(*twin) error {
	k := settingsKinds[cl.rand.IntN(len(settingsKinds))]
	history := histories[cl.rand.IntN(len(histories))]
	text := randomText(cl.rand, 2000+cl.rand.IntN(6000))
	tw := newTwin(cl.c.model, k, cl.rand.Uint64N(session.SeedMax), history, text)
	tw.label = cl.newLabel()
	return cl.making(tw, func(into any) error {
		return cl.post("/v1/sessions", map[string]any{
			"seed": tw.set.Seed, "history": history,
			"labels": map[string]string{labelKey: tw.label},
			"settings": map[string]any{"method": k.method, "chunk": k.chunk,
				"baseline": k.baseline},
		}, into)
	})
}

// fork forks a session at a random offset, with a random history. A session with the history "tail"
// may lack its earlier text, so it is forked at its end.
func (cl *crashClient) fork(tw *twin) error {
	at, history := cl.rand.IntN(tw.acked+1), histories[cl.rand.IntN(len(histories))]
	if tw.history == session.HistoryTail {
		at, history = tw.acked, session.HistoryTail
	}
	f := tw.like(cl.c.model, at, randomText(cl.rand, 1000+cl.rand.IntN(3000)))
	f.history, f.label, f.forked = history, cl.newLabel(), at
	return cl.making(f, func(into any) error {
		return cl.post("/v1/sessions/"+tw.id+"/fork", map[string]any{
			"at_offset": at, "history": history, "labels": map[string]string{labelKey: f.label},
		}, into)
	})
}

type export struct {
	of   *twin
	at   int
	file []byte
}

const exportsMost = 3

func (cl *crashClient) export(tw *twin) error {
	answer, err := cl.request("GET", "/v1/sessions/"+tw.id+"/snapshot", nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	file, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	if err := tw.sameState(bytes.NewReader(file)); err != nil {
		return err
	}
	cl.exports = append(cl.exports, export{tw, tw.acked, file})
	cl.exports = cl.exports[max(0, len(cl.exports)-exportsMost):]
	return nil
}

func (cl *crashClient) imports(*twin) error {
	e := cl.exports[cl.rand.IntN(len(cl.exports))]
	tw := e.of.like(cl.c.model, e.at, randomText(cl.rand, 1000+cl.rand.IntN(3000)))
	return cl.making(tw, func(into any) error {
		header := contentType("application/x-tar")
		return cl.do("POST", "/v1/sessions/import", cl.dripping(e.file), header, one(into))
	})
}

// delete deletes a session. If the answer is lost, the session may or may not exist.
func (cl *crashClient) delete(tw *twin) error {
	tw.deleting = true
	cl.claim(tw, false)
	err := cl.do("DELETE", "/v1/sessions/"+tw.id, nil, nil, one(nil))
	if err == nil || errors.Is(err, errNotFound) {
		cl.forget(tw)
		return nil
	}
	return err
}

func (cl *crashClient) list(*twin) error {
	_, err := cl.listAll()
	return err
}

// listAll lists the sessions of all clients. The result maps each session's id to whether the
// session belongs to this client.
func (cl *crashClient) listAll() (map[string]bool, error) {
	seen := map[string]bool{}
	for after := ""; ; {
		var page struct {
			Sessions []described
			Next     string
		}
		path := fmt.Sprintf("/v1/sessions?limit=%d", 5+cl.rand.IntN(50))
		if after != "" {
			path += "&after=" + after
		}
		if err := cl.get(path, &page); err != nil {
			return nil, err
		}
		for _, d := range page.Sessions {
			mine, err := cl.found(d)
			if err != nil {
				return nil, err
			}
			seen[d.ID] = mine
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for _, tw := range cl.sessions {
		if !seen[tw.id] && !tw.deleting {
			return nil, fmt.Errorf("session %s (%s) at offset %d is not in the list",
				tw.id, tw.label, tw.acked)
		}
	}
	return seen, nil
}

func (cl *crashClient) ask(tw *twin) error {
	var d described
	if err := cl.get("/v1/sessions/"+tw.id, &d); err != nil {
		return fmt.Errorf("session %s: %w", tw.id, err)
	}
	if err := cl.told(tw, d.Offset, d.Totals); err != nil {
		return err
	}
	tw.sent = tw.acked
	return nil
}

// score feeds a piece of text to a session in a random format. The request is JSON with text or
// base64, or a plain body that is answered by a stream of events.
func (cl *crashClient) score(tw *twin) error {
	n := 1 + cl.rand.IntN(min(400, len(tw.text)-tw.acked))
	text := tw.text[tw.acked : tw.acked+n]
	path := fmt.Sprintf("/v1/sessions/%s/score?offset=%d", tw.id, tw.acked)
	tw.sent = tw.acked + n
	cl.claim(tw, false)
	header := contentType("text/plain")
	switch cl.rand.IntN(4) {
	case 0:
		return cl.scoreSummary(tw, path, map[string]string{"text": string(text)})
	case 1:
		coded := base64.StdEncoding.EncodeToString(text)
		return cl.scoreSummary(tw, path, map[string]string{"base64": coded})
	case 2:
		header.Set("Accept", "text/event-stream")
	default:
		header.Set("Accept", "application/x-ndjson")
	}
	return cl.scoreEvents(tw, path, cl.dripping(text), header)
}

// dripping returns a body with the text. Some bodies arrive in two halves with a pause between
// them, and without a declared length.
func (cl *crashClient) dripping(text []byte) io.Reader {
	if cl.rand.IntN(3) > 0 {
		return bytes.NewReader(text)
	}
	half := len(text) / 2
	return io.MultiReader(bytes.NewReader(text[:half]), pause{}, bytes.NewReader(text[half:]))
}

type pause struct{}

func (pause) Read([]byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return 0, io.EOF
}

type summed struct {
	Type    string
	Totals  totals
	Problem struct{ Type string }
}

func (cl *crashClient) scoreSummary(tw *twin, path string, body any) error {
	var event summed
	if err := cl.post(path, body, &event); err != nil {
		return err
	}
	if event.Totals.Bytes != tw.sent {
		return fmt.Errorf("session %s: %+v, expected %d bytes", tw.id, event, tw.sent)
	}
	return cl.told(tw, event.Totals.Bytes, event.Totals)
}

// scoreEvents sends a score request whose answer is a stream of events. Each event acknowledges
// some text.
func (cl *crashClient) scoreEvents(tw *twin, path string, text io.Reader,
	header http.Header) error {
	ended := false
	return cl.do("POST", path, text, header, func(d *json.Decoder) error {
		var event summed
		err := d.Decode(&event)
		switch {
		case err == io.EOF && ended && tw.acked == tw.sent:
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", errCut, err)
		case event.Type == "error" && strings.HasSuffix(event.Problem.Type, "draining"):
			return errCut
		case event.Type != "chunk" && event.Type != "summary", ended:
			return fmt.Errorf("session %s: event %+v", tw.id, event)
		}
		ended = event.Type == "summary"
		return cl.told(tw, event.Totals.Bytes, event.Totals)
	})
}

// complete requests a completion, perhaps after a prompt, and compares the result with the
// undisturbed stream. Only the prompt becomes part of the session.
func (cl *crashClient) complete(tw *twin) error {
	const tokens = 6
	prompt := 0
	if room := len(tw.text) - tw.acked; room > 0 {
		prompt = cl.rand.IntN(min(40, room))
	}
	seed := cl.rand.Uint64N(1000)
	request := map[string]any{
		"max_tokens": tokens, "seed": seed, "commit": session.CommitPrompt,
		"prompt": string(tw.text[tw.acked : tw.acked+prompt]),
	}
	tw.sent = tw.acked + prompt
	cl.claim(tw, false)
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
	cl.claim(tw, false)
	cl.worker.Feed(tw.stream, tw.text[tw.stream.Tally.Bytes:tw.acked], nil)
	var want []byte
	sampling := txl.Sampling{Temperature: 1, TopP: 1, Seed: seed, Dry: txl.DryDefault}
	sampler := txl.NewSampler(sampling, cl.c.model.LM.Config.Vocab)
	cl.worker.Generate(tw.stream.Frozen(), sampler, func(id int32, _ float32) bool {
		want = append(want, byte(id))
		return len(want) < tokens
	})
	want = new(tokenizer.UTF8).Append(nil, want)
	got := []byte(done.Text)
	if done.TextBase64 != nil {
		got = done.TextBase64
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("session %s at offset %d goes on %q, expected %q", tw.id, tw.acked, got,
			want)
	}
	return nil
}

// backedUp is a backup, with the content that the backup must have. The field sessions contains the
// number of acknowledged bytes of each of the client's sessions.
type backedUp struct {
	file     []byte
	sessions map[string]int
	deleted  []string
}

func (cl *crashClient) back(*twin) error {
	b := &backedUp{sessions: map[string]int{}}
	for _, tw := range cl.sessions {
		if !tw.deleting {
			b.sessions[tw.id] = tw.acked
		}
	}
	for _, tw := range cl.deleted {
		b.deleted = append(b.deleted, tw.id)
	}
	answer, err := cl.request("GET", "/v1/admin/backup", nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if b.file, err = io.ReadAll(answer.Body); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	cl.backup = b
	return nil
}
