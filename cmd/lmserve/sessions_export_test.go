package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

func smallModel(t *testing.T) (file string) {
	file, err := modeltest.SmallFile(t.TempDir())
	require.NoError(t, err)
	return file
}

func answered(t *testing.T, res *http.Response, err error) (status int, body string) {
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, string(b)
}

// If the last record of a session is damaged, the text before it can be exported, over HTTP and
// from the command line. The export is marked as partial and can be imported. All other requests to
// the session are refused.
func TestDamagedSessionIsExportedInPart(t *testing.T) {
	dir, model := t.TempDir(), smallModel(t)
	url, stop := serving(t, "--data-dir", dir, "--model", model)
	made := strings.NewReader(`{"labels":{"a":"b"}}`)
	res, err := http.Post(url+"/v1/sessions", "application/json", made)
	_, body := answered(t, res, err)
	var created struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &created))
	// Each text is shorter than a chunk of 16 bytes.
	for _, text := range []string{"what was first", "what came last"} {
		path := url + "/v1/sessions/" + created.ID + "/score"
		res, err = http.Post(path, "text/plain", strings.NewReader(text))
		status, _ := answered(t, res, err)
		require.Equal(t, http.StatusOK, status)
	}
	stop()
	logs, err := filepath.Glob(filepath.Join(dir, "sessions", created.ID, "log.*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	content, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	// The first chunk of 16 bytes ends within the second text, so the second text is stored as two
	// records. The test damages the last record.
	at := bytes.LastIndex(content, []byte("at came last"))
	require.Positive(t, at)
	content[at] ^= 1
	require.NoError(t, os.WriteFile(logs[0], content, 0o600))

	// Without the index, the server reads the logs, as after a crash.
	require.NoError(t, os.Remove(filepath.Join(dir, "index")))

	file := filepath.Join(t.TempDir(), "part.session")
	_, stderr, code := lmserve("", "sessions", "--data-dir", dir, "export", "--model", model,
		created.ID, "--out", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "session "+created.ID+" was exported in part: the file contains "+
		"bytes 0 to 16 of")
	require.Contains(t, stderr, "sessions/"+created.ID+"/log.0000000000000000, byte ")
	after, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.Equal(t, content, after, "nothing in the folder is changed")
	offline, err := os.ReadFile(file)
	require.NoError(t, err)

	url, stop = serving(t, "--data-dir", dir, "--model", model)
	defer stop()
	session := url + "/v1/sessions/" + created.ID
	res, err = http.Get(session)
	status, body := answered(t, res, err)
	require.Equal(t, http.StatusOK, status)
	var shown struct {
		Offset int64
		Error  string
		Labels map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(body), &shown))
	require.Equal(t, map[string]string{"a": "b"}, shown.Labels)
	require.Contains(t, shown.Error, "frame")

	res, err = http.Get(session + "/snapshot")
	status, part := answered(t, res, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "bytes 0-15/16", res.Header.Get("Lmserve-Part"))
	require.Contains(t, res.Header.Get("Lmserve-Damage"), "sessions/"+created.ID+
		"/log.0000000000000000")
	require.Contains(t, res.Header.Get("Content-Disposition"), created.ID+".part.tar")
	require.Equal(t, offline, []byte(part), "both ways lead to the same bytes")

	res, err = http.Post(url+"/v1/sessions/import", "application/x-tar", strings.NewReader(part))
	status, body = answered(t, res, err)
	require.Equal(t, http.StatusCreated, status, body)
	var imported struct{ Offset int64 }
	require.NoError(t, json.Unmarshal([]byte(body), &imported))
	require.Equal(t, int64(16), imported.Offset)
	for verb, request := range map[string]string{
		"score": `{"text":"x"}`, "complete": `{"max_tokens":1}`, "fork": `{}`,
	} {
		res, err = http.Post(session+"/"+verb, "application/json", strings.NewReader(request))
		status, body = answered(t, res, err)
		require.Equal(t, http.StatusConflict, status, "%s: %s", verb, body)
		require.Contains(t, body, "session-unusable")
		require.Contains(t, body, `"damage":{"file":"sessions/`+created.ID)
	}
	request, err := http.NewRequest(http.MethodDelete, session, nil)
	require.NoError(t, err)
	res, err = http.DefaultClient.Do(request)
	status, _ = answered(t, res, err)
	require.Equal(t, http.StatusNoContent, status)
}

// With --model FILE, check and replay still find the embedded models of the other sessions.
func TestCheckFindsTheModelsOfAllSessions(t *testing.T) {
	dir, file := t.TempDir(), smallModel(t)
	for _, flags := range [][]string{{"--model", "swift"}, {"--model", file}} {
		url, stop := serving(t, append(flags, "--data-dir", dir)...)
		status, made := send(t, "POST", url+"/v1/sessions", "", "{}")
		require.Equal(t, http.StatusCreated, status)
		status, _ = send(t, "POST", url+"/v1/sessions/"+made["id"].(string)+"/score", "",
			`{"text":"a text"}`)
		require.Equal(t, http.StatusOK, status)
		stop()
	}
	out := must(t, "", "sessions", "check", "--data-dir", dir, "--model", file)
	require.Contains(t, out, "2 sessions, 0 findings")
	out = must(t, "", "sessions", "replay", "--data-dir", dir, "--model", file)
	require.Equal(t, 2, strings.Count(out, "all bit-identical"), out)

	out = must(t, "", "sessions", "check", "--data-dir", dir)
	require.Contains(t, out, "2 sessions, 1 findings", "a session without its model is not damaged")
	require.Contains(t, out, "; give the model's file by --model")
}

func TestStoredSessionsNameTheirModel(t *testing.T) {
	dir := t.TempDir()
	url, stop := serving(t, "--data-dir", dir, "--model", "swift")
	made, err := http.NewRequest(http.MethodPut, url+"/v1/sessions/news", strings.NewReader("{}"))
	require.NoError(t, err)
	made.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(made)
	status, body := answered(t, res, err)
	require.Equal(t, http.StatusCreated, status, body)
	res, err = http.Post(url+"/v1/sessions/news/score", "text/plain", strings.NewReader("a text"))
	status, _ = answered(t, res, err)
	require.Equal(t, http.StatusOK, status)
	stop()
	require.Contains(t, must(t, "", "sessions", "check", "--data-dir", dir),
		"1 sessions, 0 findings")
	must(t, "", "sessions", "replay", "--data-dir", dir, "news")
	file := filepath.Join(t.TempDir(), "news")
	must(t, "", "sessions", "export", "--data-dir", dir, "news", "--out", file)
	must(t, "", "sessions", "import", file, "--data-dir", dir, "--name", "twin")
	_, stderr, code := lmserve("", "sessions", "import", file, "--data-dir", dir, "--name", "copy",
		"--model", smallModel(t))
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	_, stderr, code = lmserve("", "sessions", "export", "--data-dir", dir, "--model", "default",
		"news")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "swift")
	for _, command := range [][]string{{"check"}, {"replay", "news"}, {"export", "news"}} {
		args := append([]string{"sessions", "--data-dir", dir}, command...)
		_, stderr, code = lmserve("", append(args, "--mem-len", "-1")...)
		require.Equal(t, exitUsage, code, "%q: %s", command, stderr)
	}
}
