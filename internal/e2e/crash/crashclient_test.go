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

var errCut = errors.New("cut off")

var errNotFound = errors.New("not found")

// errRefused means that the server lacked capacity and did nothing.
var errRefused = errors.New("refused")

type crashClient struct {
	c        *crash
	name     string
	rand     *rand.Rand
	worker   *stream.Worker
	sessions []*twin
	// lost contains the sessions whose creation got no answer. Such a session exists completely or
	// not at all.
	lost    []*twin
	deleted []*twin
	exports []export
	backup  *backedUp

	url   string
	http  *http.Client
	wait  sync.WaitGroup
	doing atomic.Value
	made  int
	note  func(claim) // called with all that the server reports about a session; may be nil

	bytes   int
	answers map[string]int
}

func newCrashClient(c *crash, seed, n uint64) *crashClient {
	cl := &crashClient{c: c, name: fmt.Sprint("client-", n), answers: map[string]int{}}
	cl.rand, cl.worker = rand.New(rand.NewPCG(seed, n)), stream.NewWorker(c.model, 1)
	cl.doing.Store("")
	return cl
}

// claim is a client's knowledge of a session. It comes from the server's answers and the client's
// own requests.
type claim struct {
	session  *twin
	made     bool // The server has confirmed the creation.
	acked    int
	sent     int
	deleting bool
	deleted  bool
}

func (cl *crashClient) claim(tw *twin, deleted bool) {
	if cl.note != nil {
		cl.note(claim{tw, tw.id != "", tw.acked, tw.sent, tw.deleting, deleted})
	}
}

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

func (cl *crashClient) askAll(p *program.Process) error {
	cl.url, cl.http = p.URL, &http.Client{Transport: &http.Transport{}}
	seen, err := cl.listAll()
	if err != nil {
		return err
	}
	// listAll has removed the sessions that exist; the remaining sessions were never created.
	cl.lost = nil
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

type described struct {
	ID     string
	Offset int
	Totals totals
	Labels map[string]string
	Error  json.RawMessage
}

const labelKey = "attack"

// found checks a listed session against the client's knowledge. A session that the client does not
// know must be in cl.lost. The function found then adds this session to the client's sessions.
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

func (cl *crashClient) forget(tw *twin) {
	cl.sessions = slices.DeleteFunc(cl.sessions, func(x *twin) bool { return x == tw })
	cl.deleted = append(cl.deleted, tw)
	cl.claim(tw, true)
}

// do sends a request and passes a decoder of the answer to each, repeatedly. When each returns
// io.EOF, the answer is complete.
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

// request sends a request. The caller must close the answer's body.
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

// one returns a function for crashClient.do that reads exactly one JSON value. If `into` is nil,
// the function reads nothing.
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

// ended and notEnded check whether an answer is complete. After the answer, ended expects io.EOF;
// within the answer, notEnded expects no error. Other errors mean that the answer was cut off.
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
