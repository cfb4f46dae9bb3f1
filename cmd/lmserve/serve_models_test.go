package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/weights"
)

// A server with two models scores a text with both: a session on one model has a shadow on the
// other. Both continue after a restart.
func TestServeScoresATextWithTwoModels(t *testing.T) {
	first, second, dir := randomModel(t), filepath.Join(t.TempDir(), "words"), t.TempDir()
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	require.NoError(t, weights.WriteFile(second, m.File(), weights.WriteOptions{}))
	args := []string{"--model", first, "--model", second, "--data-dir", dir}
	url, stop := serving(t, args...)
	status, _ := send(t, http.MethodPut, url+"/v1/sessions/live", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	status, made := send(t, http.MethodPut, url+"/v1/sessions/next", "",
		`{"shadow_of":"live","model":"`+m.ID()+`"}`)
	require.Equal(t, http.StatusCreated, status, "%v", made)
	require.Equal(t, m.ID(), made["model"])
	feed := func() {
		status, _ := send(t, http.MethodPost, url+"/v1/sessions/live/score", "",
			`{"text":"the cat sat on the mat .\n"}`)
		require.Equal(t, http.StatusOK, status)
	}
	feed()
	stop()
	url, stop = serving(t, args...)
	defer stop()
	feed()
	var compared map[string]any
	require.Eventually(t, func() bool {
		_, is := send(t, http.MethodGet, url+"/v1/sessions/live", "", "")
		link := is["shadows"].([]any)[0].(map[string]any)
		compared, _ = link["compared"].(map[string]any)
		return link["behind_bytes"] == 0.
	}, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 50, compared["offset"])
	require.InDelta(t, compared["difference"], compared["shadow_bits_per_byte"].(float64)-
		compared["session_bits_per_byte"].(float64), 1e-12)
	status, refused := send(t, http.MethodPost, url+"/v1/sessions/next/score", "", `{"text":"x"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "urn:lmserve:problem:session-shadow", refused["type"])
	status, is := send(t, http.MethodPatch, url+"/v1/sessions/next", "", `{"shadow_of":null}`)
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, is, "shadow_of")
	status, _ = send(t, http.MethodPost, url+"/v1/sessions/next/score", "", `{"text":"x"}`)
	require.Equal(t, http.StatusOK, status)

	_, stderr, code := lmserve("", "serve", "--data-dir", "none", "--model", first, "--model",
		first)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "expected different models")
}

// besideTheProgram writes a model into the program's folder, where commands find the model by name.
func besideTheProgram(t *testing.T, name string, m *model.Model) (path string) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	path = filepath.Join(filepath.Dir(program), name+".safetensors")
	require.NoError(t, weights.WriteFile(path, m.File(), weights.WriteOptions{}))
	t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

func modelAt(t *testing.T, url, name string) map[string]any {
	t.Helper()
	status, is := send(t, http.MethodGet, url+"/v1/models/"+name, "", "")
	require.Equal(t, http.StatusOK, status)
	return is
}

func metricsOf(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// A server finds a model by its name, and loads the model when the first text for it arrives. If
// the model's file is missing, only that model is unavailable. A server without the model leaves
// the model's sessions unchanged.
func TestServeLoadsAModelWhenItIsNeeded(t *testing.T) {
	m, err := modeltest.New(5)
	require.NoError(t, err)
	path, dir := besideTheProgram(t, "tiny", m), t.TempDir()
	args := []string{"--data-dir", dir, "--model", randomModel(t), "--model", "tiny"}
	url, stop := serving(t, args...)
	require.Equal(t, false, modelAt(t, url, m.ID())["loaded"])
	status, made := send(t, http.MethodPut, url+"/v1/sessions/on-tiny", "", `{"model":"`+m.ID()+
		`"}`)
	require.Equal(t, http.StatusCreated, status, "%v", made)
	status, _ = send(t, http.MethodPut, url+"/v1/sessions/on-first", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, false, modelAt(t, url, m.ID())["loaded"], "there is no text yet")
	score := func(session string) (int, map[string]any) {
		return send(t, http.MethodPost, url+"/v1/sessions/"+session+"/score", "",
			`{"text":"a line\n"}`)
	}

	require.NoError(t, os.Rename(path, path+".away"))
	status, refused := score("on-tiny")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "urn:lmserve:problem:model-unavailable", refused["type"])
	require.Contains(t, refused["detail"], m.ID())
	require.NotContains(t, refused["detail"], path)
	status, _ = score("on-first")
	require.Equal(t, http.StatusOK, status)
	status, _ = send(t, http.MethodGet, url+"/readyz", "", "")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, os.Rename(path+".away", path))
	status, _ = score("on-tiny")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, true, modelAt(t, url, m.ID())["loaded"])
	for _, line := range []string{
		`lmserve_model_loads_total{model="` + m.ID() + `"} 1`,
		`lmserve_model_load_failures_total{model="` + m.ID() + `"} 1`,
		`lmserve_model_scored_bytes_total{model="` + m.ID() + `"} 7`,
		`lmserve_model_states{model="` + m.ID() + `"} 1`,
	} {
		require.Contains(t, metricsOf(t, url), line+"\n")
	}
	out := must(t, "more\n", "score", "--server", url, "--model", m.ID(), "--session", "on-tiny")
	require.Contains(t, out, "total")
	_, stderr, code := lmserve("x", "score", "--server", url, "--model", "none")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--model is")
	stop()

	url, stop = serving(t, args[:4]...)
	status, is := send(t, http.MethodGet, url+"/v1/sessions/on-tiny", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, is["error"], m.ID())
	status, refused = score("on-tiny")
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "urn:lmserve:problem:session-unusable", refused["type"])
	require.Contains(t, refused["detail"], m.ID())
	stop()

	url, stop = serving(t, args...)
	defer stop()
	status, _ = score("on-tiny")
	require.Equal(t, http.StatusOK, status)
	_, is = send(t, http.MethodGet, url+"/v1/sessions/on-tiny", "", "")
	require.EqualValues(t, 19, is["offset"])
}

// The budget must be large enough for the weights of models that are loaded on demand.
func TestServeRefusesBudgetBelowWeightsOfModel(t *testing.T) {
	m, err := modeltest.New(5)
	require.NoError(t, err)
	// the companion of the first model has the same size
	m.CompanionBytes = companion.TableBytesDefault
	second := filepath.Join(t.TempDir(), "second")
	require.NoError(t, weights.WriteFile(second, m.File(), weights.WriteOptions{}))
	f := serveFlags{models: []string{randomModel(t), second}, model: modelFlags{threads: 1}}
	f.model.lengths.given = func(string) bool { return false }
	models, err := f.loadModels()
	require.NoError(t, err)
	least, err := session.MemoryMin(models.first)
	require.NoError(t, err)
	f.budget = byteSize(least)
	require.NoError(t, f.checkBudgetOf(models.first, 0))
	err = f.checkBudget(models)
	require.ErrorContains(t, err, m.ID())
	require.ErrorContains(t, err, "beside its weights")
}

func TestModelsListsWhatThereIs(t *testing.T) {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	besideTheProgram(t, "lmserve-tiny", m)
	broken := filepath.Join(t.TempDir(), "broken.safetensors")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	out, _, code := lmserve("", "models", broken)
	require.Equal(t, exitFailure, code)
	for _, want := range []string{
		`default +lmserve-default-\w+ +bytes +4\.4 M `,
		`1\.503 a byte with companion +1\.496 a byte with companion +- +embedded`,
		`swift +lmserve-swift-\w+ +bytes +0\.593 M `,
		`1\.763 a byte with companion +1\.759 a byte with companion +- +embedded`,
		`counts +lmserve-counts-\w+ +bytes +0 M +0\.0 MB .* - +embedded`,
		`tiny +` + m.ID() + ` +words +0\.\d+ M .* - +- +- +`, regexp.QuoteMeta(broken) + ` +\S`,
	} {
		require.Regexp(t, want, out)
	}
	var list []listedModel
	args := []string{"models", "--json", "--measure", "--seconds", "0.001", "--threads", "1"}
	require.NoError(t, json.Unmarshal([]byte(must(t, "", args...)), &list))
	require.Len(t, list, 4)
	require.Equal(t, "85bcc5855b2c1b21", list[0].Valid.Text)
	require.Equal(t, list[0].Valid.Text, list[1].Valid.Text, "their bits compare")
	for _, about := range list {
		require.Positive(t, about.BytesPerSecond)
		require.Equal(t, 1, about.Threads)
	}
	require.Nil(t, list[3].Valid, "its card says nothing of lmserve train")
	_, stderr, code := lmserve("", "models", "none")
	require.NotZero(t, code)
	require.Contains(t, stderr, "no model of this name")
	_, stderr, code = lmserve("", "models", "--mem-len", "-1")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "mem_len is -1")
}

func TestCommandsTakeAModelByItsName(t *testing.T) {
	m, err := modeltest.New(5)
	require.NoError(t, err)
	file := besideTheProgram(t, "tiny", m)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("a line\nand another\n"), 0o600))
	for _, args := range [][]string{
		{"score", "--total-only", text},
		{"complete", "--prompt", "a", "--max-tokens", "3", "--seed", "1"},
	} {
		byName := must(t, "", append(args, "--model", "tiny")...)
		require.Equal(t, must(t, "", append(args, "--model", file)...), byName)
	}
	must(t, "", "compress", text, "--model", "tiny", "--out", text+".lms")
	must(t, "", "decompress", text+".lms", "--model", file, "--out", text+".again")
	again, err := os.ReadFile(text + ".again")
	require.NoError(t, err)
	require.Equal(t, "a line\nand another\n", string(again))
}
