package server

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func init() {
	// The property tests of this package are slow: run 10 cases instead of rapid's default of 100,
	// unless -rapid.checks is set.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
}

// Connections break at random bytes of requests and answers. After a break, the client asks for the
// offset and resumes. The session must reach the same state as a session fed without breaks.
func TestTextCutAnywhereIsFedExactlyOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	r := newRealRig(t, session.Options{}, Options{})
	cuts, resumed := 0, 0
	check := func(rt *rapid.T) {
		settings := fmt.Sprintf(`{"seed":%d,"settings":{"chunk":%d,"method":%q,"baseline":%t}}`,
			rapid.IntRange(0, 9).Draw(rt, "seed"),
			rapid.SampledFrom([]int{modeltest.Chunk, 7, 1, 40}).Draw(rt, "chunk"),
			rapid.SampledFrom([]string{session.MethodSparseMeta, session.MethodSparseMeta,
				session.MethodStatic, session.MethodCache}).Draw(rt, "method"),
			rapid.Bool().Draw(rt, "baseline"))
		whole, pieces := r.create(settings), r.create(settings)
		text := numbered(rapid.IntRange(0, 9).Draw(rt, "text"), rapid.IntRange(1, 600).Draw(rt,
			"bytes"))
		status, answer, err := r.post(whole+"/score", text)
		require.NoError(rt, err)
		require.Equal(rt, http.StatusOK, status, answer)

		f := &cutClient{t: rt, r: r, path: pieces}
		for f.at < len(text) {
			f.send(text)
		}
		require.Equal(rt, len(text), f.at)
		cuts, resumed = cuts+f.cuts, resumed+f.resumed
		more := numbered(11, 50)
		require.Equal(rt, scores(rt, r, whole, len(text), more), scores(rt, r, pieces, len(text),
			more))
		require.Equal(rt, r.state(rt, whole), r.state(rt, pieces))
		for _, path := range []string{whole, pieces} {
			require.NoError(rt, r.mg.Delete(session.Caller{}, strings.TrimPrefix(path,
				"/v1/sessions/")))
		}
	}
	// Repeat the check until at least one break occurs after the server has accepted part of the
	// text.
	for tries := 0; tries < 20 && resumed == 0; tries++ {
		rapid.Check(t, check)
	}
	t.Logf("%d connections were cut, %d of them with a part of the text accepted", cuts, resumed)
	require.Positive(t, cuts)
	require.Positive(t, resumed)
}

func scores(t require.TestingT, r *realRig, path string, at int, text string) (all []any) {
	request, err := http.NewRequest("POST", fmt.Sprintf("%s%s/score?offset=%d&logprobs=true", r.url,
		path, at), strings.NewReader(text))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("Accept", contract.MediaNDJSON)
	resp, err := r.client.Do(request)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for d := json.NewDecoder(resp.Body); ; {
		var event struct {
			Type, Problem any
			Logprobs      []float64
			Totals        map[string]any
		}
		err := d.Decode(&event)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		require.Nil(t, event.Problem)
		all = append(all, event.Logprobs, event.Totals)
	}
}

type cutClient struct {
	t    *rapid.T
	r    *realRig
	path string
	at   int // lower bound of the session's offset
	sent int // upper bound of the session's offset

	cuts, resumed int
}

// send sends a piece of the text, possibly over a connection that breaks. It then asks for the
// session's offset, unless the request succeeded.
func (f *cutClient) send(text string) {
	n := rapid.IntRange(1, min(300, len(text)-f.at)).Draw(f.t, "piece")
	piece := text[f.at : f.at+n]
	f.sent = max(f.sent, f.at+n)
	// Headers take about 250 bytes, and an event a few hundred.
	c := &cutDialer{most: -1}
	switch where := rapid.SampledFrom([]string{"", "request", "answer"}).Draw(f.t,
		"cut in"); where {
	case "request", "answer":
		c.most, c.answer = rapid.IntRange(0, 300+n).Draw(f.t, "after bytes"), where == "answer"
		c.reset = rapid.Bool().Draw(f.t, "reset")
	}
	transport := &http.Transport{DialContext: c.dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	status, err := f.request(&http.Client{Transport: transport}, piece)
	switch {
	case err == nil && status == http.StatusOK:
		f.at += n
		return
	case err == nil: // the session is busy, because an earlier broken request is still running
		require.Equal(f.t, http.StatusConflict, status)
		time.Sleep(time.Millisecond)
	default:
		require.GreaterOrEqual(f.t, c.most, 0, err)
		f.cuts++
	}
	was := f.at
	f.ask()
	if f.at > was && f.at < was+n {
		f.resumed++
	}
}

func (f *cutClient) request(client *http.Client, piece string) (status int, err error) {
	kind, body := "text/plain", io.Reader(strings.NewReader(piece))
	switch rapid.SampledFrom([]string{"length", "chunked", "json"}).Draw(f.t, "body") {
	case "chunked":
		body = io.MultiReader(strings.NewReader(piece[:len(piece)/2]),
			strings.NewReader(piece[len(piece)/2:]))
	case "json":
		whole, err := json.Marshal(map[string]string{"text": piece})
		require.NoError(f.t, err)
		kind, body = contract.MediaJSON, strings.NewReader(string(whole))
	}
	request, err := http.NewRequest("POST", fmt.Sprintf("%s%s/score?offset=%d", f.r.url, f.path,
		f.at), body)
	require.NoError(f.t, err)
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", rapid.SampledFrom([]string{contract.MediaJSON,
		contract.MediaNDJSON, contract.MediaEventStream}).Draw(f.t, "accept"))
	resp, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// ask gets the session's offset. The offset must lie between the lower and the upper bound.
func (f *cutClient) ask() {
	resp, err := f.r.client.Get(f.r.url + f.path)
	require.NoError(f.t, err)
	defer resp.Body.Close()
	var info struct{ Offset int }
	require.NoError(f.t, json.NewDecoder(resp.Body).Decode(&info))
	require.GreaterOrEqual(f.t, info.Offset, f.at)
	require.LessOrEqual(f.t, info.Offset, f.sent)
	f.at = info.Offset
}

// cutDialer makes connections that break after a number of bytes of the request or the answer.
type cutDialer struct {
	most   int // bytes until the break; -1: no break
	answer bool
	reset  bool // the break is a TCP reset instead of an orderly close
}

func (d *cutDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || d.most < 0 {
		return conn, err
	}
	return &cutConn{TCPConn: conn.(*net.TCPConn), cutDialer: *d}, nil
}

type cutConn struct {
	*net.TCPConn
	cutDialer
}

func (c *cutConn) cut() error {
	if c.reset {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
	return net.ErrClosed
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.answer || len(p) <= c.most {
		if !c.answer {
			c.most -= len(p)
		}
		return c.TCPConn.Write(p)
	}
	n, err := c.TCPConn.Write(p[:c.most])
	if err == nil {
		err = c.cut()
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	if !c.answer {
		return c.TCPConn.Read(p)
	}
	if c.most == 0 {
		return 0, c.cut()
	}
	n, err := c.TCPConn.Read(p[:min(len(p), c.most)])
	c.most -= n
	return n, err
}

// ReadFrom and WriteTo hide the methods of TCPConn, which would bypass the break.
func (c *cutConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }
func (c *cutConn) WriteTo(w io.Writer) (int64, error)  { return io.Copy(w, struct{ io.Reader }{c}) }
