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

// TestLongStream scores the texts of the folder LMSERVE_STREAM in one session. It feeds
// LMSERVE_STREAM_MB megabytes (default: 100), and repeats the texts if they are shorter.
// LMSERVE_STREAM_MODEL names the model (default: swift).
//
// After each twentieth of the stream the test logs speed, bits per byte, memory and disk space of
// the server. Finally it kills the server, and logs the time that a new server needs to continue.
func TestLongStream(t *testing.T) {
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

// longPiece is the number of bytes that one request of a long stream scores.
const longPiece = 1 << 18

type longStream struct {
	t                   *testing.T
	program, model, dir string
	files               []texts.File
	next                int
	text                []byte
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

// resident returns the server's resident memory in bytes: `own` without mapped files, `mapped` in
// mapped files.
func (s *longStream) resident() (own, mapped int64) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.server.Process.Pid))
	require.NoError(s.t, err)
	var size, resident, shared int64
	_, err = fmt.Sscan(string(statm), &size, &resident, &shared)
	require.NoError(s.t, err)
	page := int64(os.Getpagesize())
	return (resident - shared) * page, shared * page
}

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
		return nil // errors are ignored, because the server may have removed an old snapshot
	}))
	return bytes
}
