//go:build unix

package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// errCut is the end of a request that was cut off.
var errCut = errors.New("cut off")

// errNotFound is a session that is not there.
var errNotFound = errors.New("not found")

// errRefused is the answer of a server that has no room for a request now: it has done nothing.
var errRefused = errors.New("refused")

// crashClient works with sessions of its own, and notices everything.
type crashClient struct {
	c        *crash
	name     string
	rand     *rand.Rand
	worker   *stream.Worker
	sessions []*twin
	lost     []*twin // what was asked for, and nobody has answered: it is there, whole, or not
	deleted  []*twin
	exports  []export
	backup   *backedUp // the last one

	url   string
	http  *http.Client
	wait  sync.WaitGroup // for run
	doing atomic.Value   // the name of the request under way
	made  int            // labels
	note  func(claim)    // told of everything that the server has told; nil: nobody is

	bytes   int
	answers map[string]int // by the name of the request
}

func newCrashClient(c *crash, seed, n uint64) *crashClient {
	cl := &crashClient{c: c, name: fmt.Sprint("client-", n), answers: map[string]int{}}
	cl.rand, cl.worker = rand.New(rand.NewPCG(seed, n)), stream.NewWorker(c.model, 1)
	cl.doing.Store("")
	return cl
}

// claim is what a client has been told of a session, and what it has asked for.
type claim struct {
	session  *twin
	made     bool // the server has said that there is such a session
	acked    int  // bytes
	sent     int  // bytes
	deleting bool // this was asked for
	deleted  bool // this was told
}

func (cl *crashClient) claim(tw *twin, deleted bool) {
	if cl.note != nil {
		cl.note(claim{tw, tw.id != "", tw.acked, tw.sent, tw.deleting, deleted})
	}
}

// run is a client's day: it finds out what became of its sessions, and goes on with them until the
// server is killed.
func (cl *crashClient) run(p *program.Process) {
	err := cl.askAll(p)
	for err == nil {
		err = cl.step(p)
	}
	cl.http.CloseIdleConnections()
	if !errors.Is(err, errCut) || !p.Cut.Load() {
		cl.c.t.Error(err)
	}
}

// step is one request.
func (cl *crashClient) step(p *program.Process) error {
	tw := new(twin)
	if len(cl.sessions) > 0 {
		tw = cl.sessions[cl.rand.IntN(len(cl.sessions))]
	}
	o := cl.choose(tw)
	late := p.Cut.Load()
	cl.doing.Store(o.name)
	defer cl.doing.Store("")
	err := o.do(cl, tw)
	switch {
	case errors.Is(err, errCut) && !late:
		cl.c.hit(o.name)
	case errors.Is(err, errRefused):
		return nil
	case err == nil:
		cl.answers[o.name]++
	}
	return err
}

// choose draws a request: often the one that the test wants to see.
func (cl *crashClient) choose(tw *twin) operation {
	wanted := cl.c.wanted.Load()
	if wanted != nil && wanted.possible(cl, tw) && cl.rand.IntN(2) == 0 {
		return *wanted
	}
	var all []operation
	for _, o := range operations() {
		if o.possible(cl, tw) {
			all = append(all, slices.Repeat([]operation{o}, o.share)...)
		}
	}
	return all[cl.rand.IntN(len(all))]
}

// askAll compares all sessions with what was acknowledged, after what may have been a kill.
func (cl *crashClient) askAll(p *program.Process) error {
	cl.url, cl.http = p.URL, &http.Client{Transport: &http.Transport{}}
	seen, err := cl.listAll()
	if err != nil {
		return err
	}
	cl.lost = nil // they are not there, and never will be
	for _, tw := range slices.Clone(cl.sessions) {
		if !seen[tw.id] && tw.deleting {
			cl.forget(tw)
			continue
		}
		if err := cl.ask(tw); err != nil {
			return err
		}
	}
	for _, tw := range cl.deleted[max(0, len(cl.deleted)-3):] {
		if err := cl.get("/v1/sessions/"+tw.id, nil); !errors.Is(err, errNotFound) {
			return fmt.Errorf("session %s was deleted: %w", tw.id, orThere(err))
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

// described is what the server says of a session.
type described struct {
	ID     string
	Offset int
	Totals totals
	Labels map[string]string
	Error  json.RawMessage
}

// labelKey is of the label that every session of the test has.
const labelKey = "attack"

// found holds a session that was listed against what the client knows. One that the client does
// not know must be one that it asked for without an answer, and just so: from now on it is one of
// the client's.
func (cl *crashClient) found(d described) (mine bool, err error) {
	if d.Error != nil {
		return false, fmt.Errorf("session %s is damaged: %s", d.ID, d.Error)
	}
	label := d.Labels[labelKey]
	if !strings.HasPrefix(label, cl.name+"/") {
		return false, nil
	}
	if slices.ContainsFunc(cl.sessions, func(tw *twin) bool { return tw.id == d.ID }) {
		return true, nil
	}
	n := slices.IndexFunc(cl.lost, func(tw *twin) bool {
		return tw.label == label && tw.sent == d.Offset
	})
	if n < 0 {
		return true, fmt.Errorf("session %s (%s) at offset %d was never asked for, or is deleted",
			d.ID, label, d.Offset)
	}
	tw := cl.lost[n]
	tw.id = d.ID
	cl.lost = slices.Delete(cl.lost, n, n+1)
	cl.sessions = append(cl.sessions, tw)
	return true, cl.told(tw, d.Offset, d.Totals)
}

// told notes what the server says of a session, if that is right.
func (cl *crashClient) told(tw *twin, offset int, t totals) error {
	cl.c.events.Add(1)
	before := tw.acked
	if err := tw.told(cl.worker, offset, t); err != nil {
		return err
	}
	cl.bytes += tw.acked - before
	cl.claim(tw, false)
	return nil
}

// forget forgets a session that is deleted.
func (cl *crashClient) forget(tw *twin) {
	cl.sessions = slices.DeleteFunc(cl.sessions, func(x *twin) bool { return x == tw })
	cl.deleted = append(cl.deleted, tw)
	cl.claim(tw, true)
}

// do makes a request and reads the answer as JSON values, one after the other.
func (cl *crashClient) do(
	method, path string, body io.Reader, header http.Header, each func(*json.Decoder) error,
) error {
	answer, err := cl.request(method, path, body, header)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text := io.Reader(answer.Body)
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		text = dataOf(answer.Body)
	}
	for d := json.NewDecoder(text); ; {
		err := each(d)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// request makes a request whose answer the caller closes.
func (cl *crashClient) request(
	method, path string, body io.Reader, header http.Header,
) (*http.Response, error) {
	r, err := http.NewRequest(method, cl.url+path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := cl.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCut, err)
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	return answer, nil
}

// refusal is an answer that is none.
func refusal(answer *http.Response) error {
	var problem struct{ Type, Detail string }
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	switch name := strings.TrimPrefix(problem.Type, "urn:lmserve:problem:"); {
	case name == "draining":
		return errCut
	case name == "session-limit", name == "backup-busy":
		return fmt.Errorf("%w: %s", errRefused, name)
	case answer.StatusCode == http.StatusNotFound:
		return errNotFound
	}
	return fmt.Errorf("%s: %s %s", answer.Request.URL, problem.Type, problem.Detail)
}

// dataOf is what the events of a stream say.
func dataOf(stream io.Reader) io.Reader {
	from, to := io.Pipe()
	go func() {
		text := bufio.NewReader(stream)
		for {
			line, err := text.ReadString('\n')
			if data, ok := strings.CutPrefix(line, "data:"); ok && err == nil {
				_, err = io.WriteString(to, data)
			}
			if err != nil {
				to.CloseWithError(err)
				return
			}
		}
	}()
	return from
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

func (cl *crashClient) get(path string, into any) error {
	return cl.do("GET", path, nil, nil, one(into))
}

func (cl *crashClient) post(path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return cl.do("POST", path, bytes.NewReader(text), contentType("application/json"), one(into))
}

func contentType(name string) http.Header { return http.Header{"Content-Type": {name}} }
