package memory

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	texts "github.com/lmserve/lmserve/internal/documents"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// A long stream is for LMSERVE_STREAM=DIR, a folder of texts, of which LMSERVE_STREAM_MB megabytes
// (100) go through one session of a server of LMSERVE_STREAM_MODEL (swift), and again from the
// first text on behind the last. Every twentieth of it a line says what the server does by then:
// bytes a second, bits a byte, its own memory, that of files that it has mapped, and the disk. At
// the end it is killed, and the line after that says how long it takes a new one to score on.
func TestALongStream(t *testing.T) {
	dir := os.Getenv("LMSERVE_STREAM")
	if dir == "" {
		t.Skip("LMSERVE_STREAM=DIR streams the texts of a folder (an hour)")
	}
	megabytes, err := strconv.Atoi(valueOr("LMSERVE_STREAM_MB", "100"))
	require.NoError(t, err)
	s := newLongStream(t, dir, valueOr("LMSERVE_STREAM_MODEL", "swift"))
	kill := s.start()
	t.Logf("%6s %9s %13s %11s %11s %10s", "MB", "bytes/s", "bits a byte", "memory, MB",
		"mapped, MB",
		"disk, MB")
	step := megabytes * 1e6 / 20
	for range 20 {
		began, bits := time.Now(), 0.
		for sent := 0; sent < step; sent += longPiece {
			bits += s.score(min(longPiece, step-sent))
		}
		seconds := time.Since(began).Seconds()
		own, mapped := s.resident()
		t.Logf("%6.1f %9.0f %13.3f %11.1f %11.1f %10.1f", float64(s.sent)/1e6,
			float64(step)/seconds,
			bits/float64(step), float64(own)/1e6, float64(mapped)/1e6, float64(s.disk())/1e6)
	}
	kill()
	began := time.Now()
	kill = s.start()
	defer kill()
	s.score(1)
	t.Logf("killed; %.1f s later a new server has scored the byte that came next",
		time.Since(began).Seconds())
}

func valueOr(variable, otherwise string) string {
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return otherwise
}

// longPiece is how many bytes a request of a long stream has.
const longPiece = 1 << 18

// longStream is a server, and texts that go through one session of it.
type longStream struct {
	t                   *testing.T
	program, model, dir string
	files               []texts.File
	next                int    // file
	text                []byte // of the file before it, that was not sent yet
	sent                int64
	url                 string
	server              *exec.Cmd
}

func newLongStream(t *testing.T, dir, model string) *longStream {
	files, err := texts.List(dir, 0)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return &longStream{
		t: t, files: files, model: model,
		program: program.Built(t), dir: filepath.Join(t.TempDir(), "data"),
	}
}

// start starts a server, and returns what kills it.
func (s *longStream) start() (kill func()) {
	s.server = program.Command(s.program, "serve", "--listen", "127.0.0.1:0", "--log-format",
		"none",
		"--model", s.model, "--data-dir", s.dir)
	out, err := s.server.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.server.Start())
	kill = func() {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
	s.t.Cleanup(kill)
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	require.NoError(s.t, err)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	s.url = strings.TrimSpace(first[strings.LastIndex(first, "http"):])
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, s.url+"/v1/sessions/long",
		strings.NewReader("{}"))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	require.NoError(s.t, res.Body.Close())
	require.Less(s.t, res.StatusCode, 300)
	return kill
}

// score sends so many bytes, and returns their bits.
func (s *longStream) score(n int) float64 {
	piece := make([]byte, 0, n)
	for len(piece) < n {
		if len(s.text) == 0 {
			text, err := s.files[s.next].Read()
			require.NoError(s.t, err)
			s.text, s.next = text, (s.next+1)%len(s.files)
		}
		part := min(n-len(piece), len(s.text))
		piece, s.text = append(piece, s.text[:part]...), s.text[part:]
	}
	url := fmt.Sprintf("%s/v1/sessions/long/score?offset=%d", s.url, s.sent)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url,
		strings.NewReader(string(piece)))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer res.Body.Close()
	var summary struct{ Bits float64 }
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	require.NoError(s.t, json.NewDecoder(res.Body).Decode(&summary))
	s.sent += int64(n)
	return summary.Bits
}

// resident is the server's memory: its own, and that of files that are mapped.
func (s *longStream) resident() (own, mapped int64) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.server.Process.Pid))
	require.NoError(s.t, err)
	var size, resident, shared int64
	_, err = fmt.Sscan(string(statm), &size, &resident, &shared)
	require.NoError(s.t, err)
	page := int64(os.Getpagesize())
	return (resident - shared) * page, shared * page
}

// disk is what the data folder takes.
func (s *longStream) disk() (bytes int64) {
	require.NoError(s.t, filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry,
		err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return nil // a snapshot may have gone
	}))
	return bytes
}
