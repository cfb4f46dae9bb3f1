package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

// randomModel writes a small random model without meta-learners and statistics.
func randomModel(t *testing.T) string {
	t.Helper()
	small, err := modeltest.Small()
	require.NoError(t, err)
	m, err := model.New("small", small.LM, nil, modeltest.Chunk, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "small.safetensors")
	require.NoError(t, weights.WriteFile(file, m.File(), weights.WriteOptions{}))
	return file
}

// The server opens its data folder before it listens. If the folder is not a data folder or has an
// older version, the server exits at once.
func TestServeRefusesFoldersItCannotRead(t *testing.T) {
	file := randomModel(t)
	for name, content := range map[string]string{"version": "lmserve data folder 3\n",
		"lmserve.db": "old"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		// The timeout ends a server that should not have started.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var stdout, stderr bytes.Buffer
		code := run(ctx, []string{"serve", "--model", file, "--listen", "127.0.0.1:0", "--log",
			"none", "--data-dir", dir}, nil, &stdout, &stderr)
		cancel()
		require.Equal(t, exitFailure, code, stderr.String())
		require.Contains(t, stderr.String(), name)
		require.Empty(t, stdout.String())
	}
}

func TestServeRefusesBudgetBelowOneSession(t *testing.T) {
	file := randomModel(t)
	_, stderr, code := lmserve("", "serve", "--model", file, "--log-format", "none", "--data-dir",
		"none",
		"--listen", "127.0.0.1:0", "--memory-budget", "1")
	require.Equal(t, exitUsage, code)
	least := regexp.MustCompile(
		`--memory-budget is 1, expected at least (\d+M), `).FindStringSubmatch(stderr)
	require.NotNil(t, least, stderr)
	url, stop := serving(t, "--model", file, "--memory-budget", least[1])
	defer stop()
	status, _ := send(t, http.MethodPost, url+"/v1/completions", "",
		`{"model":"small","prompt":"x","max_tokens":3}`)
	require.Equal(t, http.StatusOK, status)
	status, made := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	status, _ = send(t, http.MethodPost, url+"/v1/sessions/"+made["id"].(string)+"/score?unit=line",
		"",
		`{"text":"a\nb\n"}`)
	require.Equal(t, http.StatusOK, status)
}

// A single log line reports all stored sessions whose models the server lacks, and says what to do.
func TestServeTellsOfTheSessionsOfAnotherModelOnce(t *testing.T) {
	dir, file := t.TempDir(), randomModel(t)
	url, stop := serving(t, "--model", file, "--data-dir", dir)
	for range 5 {
		status, _ := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
		require.Equal(t, http.StatusCreated, status)
	}
	stop()
	core, logged := observer.New(zap.InfoLevel)
	f := serveFlags{data: dataFlags{dir: dir}, model: modelFlags{threads: 1}}
	m, err := model.Default()
	require.NoError(t, err)
	o, err := f.openSessions(t.Context(), servedModels{first: m}, nil, zap.New(core))
	require.NoError(t, err)
	require.NoError(t, o.close())
	require.Equal(t, 1, logged.Len(), "%v", logged.All())
	line := logged.All()[0]
	require.Equal(t, zap.WarnLevel, line.Level)
	require.Contains(t, line.Message, "--data-dir")
	require.Contains(t, line.Message, "--model")
	require.EqualValues(t, 5, line.ContextMap()["sessions"])
}

func TestServeTakesSmallerLimits(t *testing.T) {
	url, stop := serving(t, "--model", randomModel(t), "--max-score-body", "1K", "--max-body-idle",
		"2s")
	defer stop()
	_, made := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
	for size, want := range map[int]int{1000: http.StatusOK,
		1100: http.StatusRequestEntityTooLarge} {
		res, err := http.Post(url+"/v1/sessions/"+made["id"].(string)+"/score", "text/plain",
			strings.NewReader(strings.Repeat("x", size)))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode)
	}
	for flag, value := range map[string]string{
		"max-score-body": "17G", "max-body-idle": "6m", "max-answer-idle": "0s",
		"drain-delay": "-1s",
	} {
		_, stderr, code := lmserve("", "serve", "--listen", "nowhere", "--data-dir", "none", "--"+
			flag, value)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--"+flag+" is "+strings.TrimSuffix(value, "0s"))
	}
}

// The time of --drain-timeout begins after --drain-delay, so requests in progress may finish even
// if the delay is longer.
func TestDrainTimeoutFollowsDrainDelay(t *testing.T) {
	url, stop := serving(t, "--model", smallModel(t), "--drain-delay", "2s", "--drain-timeout",
		"1s")
	text, _ := beginning(t, 100)
	_, session := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
	body, write := io.Pipe()
	answers := make(chan string, 1)
	go func() {
		var events []byte
		path := url + "/v1/sessions/" + session["id"].(string) + "/score"
		res, err := http.Post(path, "text/plain", body)
		if err == nil {
			events, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		answers <- fmt.Sprint(string(events), err)
	}()
	_, err := io.WriteString(write, text)
	require.NoError(t, err)
	time.AfterFunc(1200*time.Millisecond, func() { _ = write.Close() })
	stop()
	require.Regexp(t, `(?s)^{"type":"summary","offset":100,.*<nil>$`, <-answers)
}
