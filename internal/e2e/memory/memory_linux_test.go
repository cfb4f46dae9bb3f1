package memory

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/server/limits"
)

const (
	memoryBudget = 64 << 20
	// memorySlack is the number of bytes that the process may map beyond its declared memory. The
	// kernel limits writable mappings (RLIMIT_DATA), and Go maps its heap in arenas of 64 MiB. A
	// limit on the address space (RLIMIT_AS) would not work, because Go reserves much more than it
	// uses.
	memorySlack = 192 << 20
)

// limited is a server whose memory the kernel limits.
type limited struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	url  string
	most int64 // maximum memory that the server reports, in bytes
	http *http.Client

	answers sync.Map // number of answers (*atomic.Int64) by HTTP status (int)
	wrong   atomic.Pointer[string]
}

// startLimited starts a server. When the server has logged its maximum memory, startLimited sets
// the kernel's limit for the process.
func startLimited(t *testing.T) *limited {
	folder := t.TempDir()
	l := &limited{t: t, dir: filepath.Join(folder, "data"),
		http: &http.Client{Transport: &http.Transport{}}}
	file, err := modeltest.SmallFile(folder)
	require.NoError(t, err)
	l.cmd = program.Command(program.Built(t), "serve", "--listen", "127.0.0.1:0", "--model", file,
		"--data-dir", l.dir,
		"--memory-budget", strconv.Itoa(memoryBudget), "--max-connections", "512", "--threads", "2",
		"--log-format", "json")
	l.cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	stdout, err := l.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := l.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, l.cmd.Start())
	t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	said := make(chan int64, 1)
	go l.readLog(stderr, said)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	l.url = strings.TrimSpace(line[strings.Index(line, "http"):])
	l.most = <-said
	limit := fmt.Sprintf("--data=%d", l.most+memorySlack)
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(l.cmd.Process.Pid),
		limit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return l
}

// readLog sends the maximum memory from the server's log on the channel `said`. An error in the
// log, or a line that is not JSON, fails the test.
func (l *limited) readLog(stderr io.Reader, said chan<- int64) {
	defer close(said)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Level string
			Msg   string
			Most  int64 `json:"most_bytes"`
		}
		switch err := json.Unmarshal(lines.Bytes(), &entry); {
		case err != nil, entry.Level == "error":
			l.fail("the server says: " + lines.Text())
		case entry.Msg == "memory":
			said <- entry.Most
		}
	}
}

func (l *limited) fail(what string) { l.wrong.CompareAndSwap(nil, &what) }

// ask sends a request, passes the answer's body to the function `read`, and counts the answer's
// status. The body of an error must be problem details (RFC 9457), and the server must not report
// an internal error.
func (l *limited) ask(
	ctx context.Context, method, path, media string, body io.Reader, read func(io.Reader),
) (status int, header http.Header) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, body)
	if err != nil {
		l.fail(err.Error())
		return 0, nil
	}
	r.Header.Set("Content-Type", media)
	if _, accept, ok := strings.Cut(media, ";accept="); ok {
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Accept", accept)
	}
	res, err := l.http.Do(r)
	if err != nil {
		// Only a refused connection is a failure. Clients may cancel requests, and the server may
		// close a connection before it has read the whole body.
		if ctx.Err() == nil && strings.Contains(err.Error(), "connection refused") {
			l.fail(method + " " + path + ": " + err.Error())
		}
		return 0, nil
	}
	defer res.Body.Close()
	n, _ := l.answers.LoadOrStore(res.StatusCode, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		var p struct{ Type string }
		if json.Unmarshal(text, &p) != nil && ctx.Err() == nil ||
			res.StatusCode == http.StatusInternalServerError ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			l.fail(fmt.Sprintf("%s %s: %d %s", method, path, res.StatusCode, text))
		}
		return res.StatusCode, res.Header
	}
	read(res.Body)
	return res.StatusCode, res.Header
}

func discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

func slowly(r io.Reader) {
	for buffer := make([]byte, 4<<10); ; time.Sleep(50 * time.Millisecond) {
		if _, err := r.Read(buffer); err != nil {
			return
		}
	}
}

func (l *limited) create(body string) string {
	status, header := l.ask(l.t.Context(), http.MethodPost, "/v1/sessions", "application/json",
		strings.NewReader(body), discard)
	require.Equal(l.t, http.StatusCreated, status)
	return header.Get("Location")
}

// worst returns functions that send the requests with the highest memory use, by kind of request.
func (l *limited) worst(t *testing.T) map[string]func(ctx context.Context, n int) {
	plain := l.create(`{"settings":{"chunk":16}}`)
	text := bytes.Repeat([]byte("0123456789abcdef"), 256)
	l.ask(t.Context(), http.MethodPost, plain+"/score", "text/plain", bytes.NewReader(text),
		discard)
	var export bytes.Buffer
	l.ask(t.Context(), http.MethodGet, plain+"/snapshot", "", nil, func(r io.Reader) {
		_,
			_ = io.Copy(&export, r)
	})

	noise := make([]byte, 32<<20)
	for i, from := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(from.Uint32())
	}
	large := grown(t, export.Bytes(), noise, 1<<20)
	many := grown(t, export.Bytes(), noise[:4<<20], 16)
	bomb := grown(t, export.Bytes(), make([]byte, 128<<20), 1<<20)
	var zeros bytes.Buffer
	z, err := zstd.NewWriter(&zeros)
	require.NoError(t, err)
	for range 256 {
		_, err = z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	header := append([]byte{0, 0, 0, 1, 0, 0, 0, 0}, bytes.Repeat([]byte(" "), 16<<20)...)
	files := [][]byte{large, many, bomb, zeros.Bytes(), header}

	labels := make([]string, 16)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"%064d":"%s"`, i, strings.Repeat("\U0001F600", 256))
	}
	labeled := `{"labels":{` + strings.Join(labels, ",") + `}}`
	for range 200 {
		l.create(labeled)
	}
	var session string
	_, h := l.ask(t.Context(), http.MethodPost, "/v1/sessions/import", "application/x-tar",
		bytes.NewReader(large), discard)
	session = h.Get("Location")

	full := func(begin, each, end string) []byte {
		return []byte(begin + strings.Repeat(each,
			(limits.JSONBodyBytesMax-len(begin)-len(end))/len(each)) + end)
	}
	bodies := []struct {
		path string
		body []byte
	}{
		{plain + "/complete", full(`{"max_tokens":1,"prompt":"`, "a", `"}`)},
		{plain + "/score", full(`{"text":"`, `\u0061`, `"}`)},
		{plain + "/score", full(`{"base64":"`, "YWFh", `"}`)},
		{"/v1/sessions", full(`{"settings":{"gammas":[`, "1,", `1]}}`)},
		{"/v1/sessions", full(`{"labels":{"a":"`, "b", `"}}`)},
		{plain + "/fork", full(`{"x":[`, "[],", `1]}`)},
		{plain + "/complete", full(`{"stop":["`, "x", `"]}`)},
	}
	prompt := strings.Repeat("1,", limits.OpenAIPromptTokensMax-1) + "1"
	completions := []struct{ path, body string }{
		{"/v1/completions", `{"model":"small","prompt":[` + prompt +
			`],"max_tokens":0,"echo":true,"logprobs":1}`},
		{"/v1/completions", `{"model":"small","prompt":[` + prompt[:48_000] +
			`1],"max_tokens":0,"echo":true,"logprobs":20}`},
		{"/v1/completions", `{"model":"small","prompt":[` + prompt +
			`],"n":128,"max_tokens":500,"echo":true,"logprobs":20,"stream":true}`},
		{"/v1/completions", `{"model":"small","prompt":["` + strings.Repeat(`x","`, 127) +
			`x"],"max_tokens":512,"logprobs":5}`},
		{"/detokenize", `{"tokens":[` + prompt + `]}`},
		{"/tokenize", `{"prompt":"` + strings.Repeat("😀", limits.TokenizeCharsMax) + `"}`},
	}
	json := "application/json"
	return map[string]func(ctx context.Context, n int){
		"json": func(ctx context.Context, n int) {
			b := bodies[n%len(bodies)]
			l.ask(ctx, http.MethodPost, b.path, json, bytes.NewReader(b.body), discard)
		},
		"import": func(ctx context.Context, n int) {
			_, h := l.ask(ctx, http.MethodPost, "/v1/sessions/import", "application/x-tar",
				bytes.NewReader(files[n%len(files)]), discard)
			if made := h.Get("Location"); made != "" {
				l.ask(t.Context(), http.MethodDelete, made, "", nil, discard)
			}
		},
		"export": func(ctx context.Context, n int) {
			read := slowly
			if n%2 == 0 {
				read = discard
			}
			l.ask(ctx, http.MethodGet, session+"/snapshot", "", nil, read)
		},
		"fork": func(ctx context.Context, _ int) {
			_, h := l.ask(ctx, http.MethodPost, session+"/fork", json, nil, discard)
			if made := h.Get("Location"); made != "" {
				l.ask(t.Context(), http.MethodDelete, made, "", nil, discard)
			}
		},
		"complete": func(ctx context.Context, n int) {
			body := fmt.Sprintf(`{"max_tokens":65536,"logprobs":true,"stream":%t,"prompt":"a"}`,
				n%2 == 0)
			l.ask(ctx, http.MethodPost, plain+"/complete", json, strings.NewReader(body), slowly)
		},
		"openai": func(ctx context.Context, n int) {
			c := completions[n%len(completions)]
			l.ask(ctx, http.MethodPost, c.path, json, strings.NewReader(c.body), slowly)
		},
		"list": func(ctx context.Context, n int) {
			l.ask(ctx, http.MethodGet, "/v1/sessions?limit=1000", "", nil, slowly)
		},
		"score": func(ctx context.Context, n int) {
			own := l.create(`{"settings":{"chunk":1024,"baseline":true}}`)
			media := []string{"text/plain", "text/plain;accept=text/event-stream",
				"text/plain;accept=application/x-ndjson"}[n%3]
			l.ask(ctx, http.MethodPost, own+"/score?logprobs=true", media, bytes.NewReader(noise),
				slowly)
			l.ask(t.Context(), http.MethodDelete, own, "", nil, discard)
		},
		"backup": func(ctx context.Context, n int) {
			l.ask(ctx, http.MethodGet, "/v1/admin/backup", "", nil, slowly)
			time.Sleep(100 * time.Millisecond) // the server makes one backup at a time
		},
		"silent": func(ctx context.Context, n int) {
			c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x",
				n%limits.HeaderBytesMax))
			<-ctx.Done()
		},
	}
}

func (l *limited) status(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
	require.NoError(l.t, err)
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		l.fail("the server has died")
		return 0
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(l.t, err)
	return n << 10
}

// A server declares its maximum memory, and the kernel grants no more. When many clients send all
// the worst requests at once, the server survives, and every answer follows the API contract.
// Afterwards a small score works as before. With LMSERVE_TEST_LONG the test lasts a minute.
func TestWorstRequestsAtOnceStayWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	long, clients := 8*time.Second, 6
	if os.Getenv("LMSERVE_TEST_LONG") != "" {
		long, clients = time.Minute, 12
	}
	l := startLimited(t)
	kinds := l.worst(t)
	runtime.GC()
	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	var all sync.WaitGroup
	var peak int64 // the highest resident memory without mapped files, in bytes
	for kind, request := range kinds {
		n := clients
		if kind == "silent" {
			n = 100
		}
		for c := range n {
			all.Go(func() {
				for i := c; ctx.Err() == nil && l.wrong.Load() == nil; i++ {
					one, done := context.WithTimeout(ctx, long/2)
					request(one, i)
					done()
				}
			})
		}
	}
	for ctx.Err() == nil && l.wrong.Load() == nil {
		peak = max(peak, l.status("RssAnon"))
		time.Sleep(10 * time.Millisecond)
	}
	end()
	all.Wait()
	high := l.status("VmHWM")
	counts := map[any]int64{}
	l.answers.Range(func(status, n any) bool {
		counts[status] =
			n.(*atomic.Int64).Load()
		return true
	})
	t.Logf("at most %d MB of %d; with what is mapped %d; answers %v", peak>>20, l.most>>20,
		high>>20, counts)
	if wrong := l.wrong.Load(); wrong != nil {
		t.Fatal(*wrong)
	}
	require.LessOrEqual(t, peak, l.most)
	require.LessOrEqual(t, high, l.most)

	own := l.create(`{}`)
	status, _ := l.ask(t.Context(), http.MethodPost, own+"/score", "text/plain",
		strings.NewReader("small"), discard)
	require.Equal(t, http.StatusOK, status)
	l.http.CloseIdleConnections()
	require.NoError(t, l.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, l.cmd.Wait())
}
