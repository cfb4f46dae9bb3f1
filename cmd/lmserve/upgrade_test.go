package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// upgradeFolders contains folders that older versions of the program have written. The name of a
// folder is the date and the commit of the older version. A folder contains
//
//	data/                   the data folder
//	sessions.json           the older version's descriptions of the sessions in data
//	goes-on.NUMERICS.jsonl  the older version's results for more text in these sessions
//
// NUMERICS names the floating-point type and the instruction set of the results. All folders use
// the model in model.safetensors. To add a folder, build the older version and run the command
// below. Then repeat both steps with -tags noasm, to add the results of the other numerics.
//
//	LMSERVE_OLDER=/path/to/lmserve LMSERVE_OLDER_NAME=2026-11-22-8526217 \
//	  go test ./cmd/lmserve -run TestOlderProgramWritesFolder
const upgradeFolders = "testdata/upgrade"

type olderSession struct {
	ID       string         `json:"id"`
	Settings map[string]any `json:"settings"`
	Query    string         `json:"query"` // query parameters of the requests that feed the session
	Offset   int64          `json:"offset"`
	Bits     float64        `json:"bits"`
}

var olderSessions = []olderSession{
	{Settings: map[string]any{"method": "sparse-meta", "baseline": true}},
	{Settings: map[string]any{"method": "sparse-meta", "p": 0.5}},
	{Settings: map[string]any{"method": "dynamic-sgd"}},
	{Settings: map[string]any{"method": "dynamic-rms", "baseline": true}},
	{Settings: map[string]any{"method": "cache"}},
	{Settings: map[string]any{"method": "static"}},
	{Settings: map[string]any{"method": "sparse-meta"}, Query: "&unit=line&learn=unflagged"},
}

// scored has the computed fields of an event, which the test compares.
type scored struct {
	Session int      `json:"session"`
	Offset  int64    `json:"offset"`
	Bits    *float64 `json:"bits"`
	Static  *float64 `json:"baseline_bits,omitempty"`
	P       *float64 `json:"p,omitempty"`
	Rank    *float64 `json:"rank,omitempty"`
}

// upgradeText returns the first or the second part of a log. The first part ends inside a line and
// inside a chunk.
func upgradeText(part int) string {
	var text strings.Builder
	for i := range 60 {
		text.WriteString("GET /page/" + strings.Repeat("x", i*i%7) + " 200\n")
		if i%17 == 16 {
			text.WriteString("kernel: out of memory: killed 4711\n")
		}
	}
	whole := text.String()
	return [2]string{whole[:777], whole[777:]}[part]
}

func TestFoldersOfOlderProgramsContinueToSameBits(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(upgradeFolders, "*", "data"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		of := filepath.Dir(folder)
		t.Run(filepath.Base(of), func(t *testing.T) {
			var sessions []olderSession
			readJSON(t, filepath.Join(of, "sessions.json"), &sessions)
			want, err := os.ReadFile(goesOn(of, kernel.Arithmetic{}.Numerics()))
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(folder)))

			model := filepath.Join(upgradeFolders, "model.safetensors")
			flags := []string{"--model", model, "--data-dir", dir}
			check := append([]string{"sessions", "check"}, flags...)
			require.Contains(t, must(t, "", check...), " 0 findings")
			url, stop := serving(t, flags...)
			requireStored(t, url, sessions)
			got := feedOn(t, url, sessions)
			stop()
			require.Equal(t, string(want), got)
			require.Contains(t, must(t, "", check...), " 0 findings")
		})
	}
}

// TestOlderProgramWritesFolder makes a folder in testdata/upgrade with the program in the
// environment variable LMSERVE_OLDER. If the folder exists, the test only adds the program's
// results for more text.
func TestOlderProgramWritesFolder(t *testing.T) {
	older, name := os.Getenv("LMSERVE_OLDER"), os.Getenv("LMSERVE_OLDER_NAME")
	if older == "" || name == "" {
		t.Skip("LMSERVE_OLDER and LMSERVE_OLDER_NAME are not set: there is no older program")
	}
	model, err := filepath.Abs(filepath.Join(upgradeFolders, "model.safetensors"))
	require.NoError(t, err)
	of := filepath.Join(upgradeFolders, name)
	data := filepath.Join(of, "data")
	if _, err := os.Stat(data); err != nil {
		require.NoError(t, os.MkdirAll(of, 0o755))
		// This variable keeps the folder small. Not every version reads it.
		t.Setenv("LMSERVE_FORK_SNAPSHOTS", "1")
		url, stop := servingWith(t, older, "--model", model, "--data-dir", data,
			"--max-replay", "1ns") // forces the program to write snapshots
		sessions := makeSessions(t, url)
		stop()
		text, err := json.MarshalIndent(sessions, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(of, "sessions.json"), append(text, '\n'),
			0o644))
	}
	var sessions []olderSession
	readJSON(t, filepath.Join(of, "sessions.json"), &sessions)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(data)))
	url, stop := servingWith(t, older, "--model", model, "--data-dir", dir)
	requireStored(t, url, sessions)
	got := feedOn(t, url, sessions)
	stop()
	version, err := exec.Command(older, "version").Output()
	require.NoError(t, err)
	_, numerics, _ := strings.Cut(string(version), "numerics")
	require.NoError(t, os.WriteFile(goesOn(of, strings.Fields(numerics)[0]), []byte(got), 0o644))
}

func goesOn(of, numerics string) string { return filepath.Join(of, "goes-on."+numerics+".jsonl") }

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, to))
}

// servingWith starts the given program as a server. In contrast, serving starts the tested program.
func servingWith(t *testing.T, program string, flags ...string) (url string, stop func()) {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "none"}, flags...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(first[strings.LastIndex(first, "http"):]), func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the exit status does not matter
	}
}

// makeSessions creates and feeds the sessions of a folder. The last session is a fork of the first
// session.
func makeSessions(t *testing.T, url string) (sessions []olderSession) {
	for i, s := range olderSessions {
		body, err := json.Marshal(map[string]any{"settings": s.Settings, "seed": i + 1})
		require.NoError(t, err)
		status, made := send(t, http.MethodPost, url+"/v1/sessions", "", string(body))
		require.Equal(t, http.StatusCreated, status, "%v", made)
		s.ID = made["id"].(string)
		if _, status := score(t, url, i, s, upgradeText(0)); status == http.StatusOK {
			sessions = append(sessions, s)
		} else { // An older program may not support these query parameters.
			require.NotEmpty(t, s.Query)
		}
	}
	status, made := send(t, http.MethodPost, url+"/v1/sessions/"+sessions[0].ID+"/fork", "",
		`{"at_offset":300}`)
	require.Equal(t, http.StatusCreated, status, "%v", made)
	fork := sessions[0]
	fork.ID = made["id"].(string)
	sessions = append(sessions, fork)
	for i := range sessions {
		sessions[i].Offset, sessions[i].Bits = stateOf(t, url, sessions[i].ID)
	}
	return sessions
}

func stateOf(t *testing.T, url, id string) (offset int64, bits float64) {
	status, about := send(t, http.MethodGet, url+"/v1/sessions/"+id, "", "")
	require.Equal(t, http.StatusOK, status, "%v", about)
	return int64(about["offset"].(float64)), about["totals"].(map[string]any)["bits"].(float64)
}

func requireStored(t *testing.T, url string, sessions []olderSession) {
	for _, s := range sessions {
		offset, bits := stateOf(t, url, s.ID)
		require.Equal(t, s.Offset, offset)
		require.Equal(t, s.Bits, bits)
	}
}

func feedOn(t *testing.T, url string, sessions []olderSession) string {
	var told bytes.Buffer
	out := json.NewEncoder(&told)
	for i, s := range sessions {
		events, status := score(t, url, i, s, upgradeText(1))
		require.Equal(t, http.StatusOK, status)
		for _, event := range events {
			require.NoError(t, out.Encode(event))
		}
	}
	return told.String()
}

func score(
	t *testing.T, url string, number int, s olderSession, text string,
) (events []scored, status int) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		url+"/v1/sessions/"+s.ID+"/score?"+strings.TrimPrefix(s.Query, "&"),
		strings.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Accept", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode
	}
	for line := range strings.Lines(string(answer)) {
		event := scored{Session: number}
		require.NoError(t, json.Unmarshal([]byte(line), &event))
		events = append(events, event)
	}
	require.NotEmpty(t, events)
	return events, res.StatusCode
}
