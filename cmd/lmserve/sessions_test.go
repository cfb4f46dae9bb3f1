package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSessionsOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir, model := t.TempDir(), smallModel(t)
	text, _ := beginning(t, 500)
	url, stop := serving(t, "--model", model, "--data-dir", dir)
	res, err := http.Post(url+"/v1/sessions", "application/json",
		strings.NewReader(`{"seed":3,"labels":{"a":"b"}}`))
	require.NoError(t, err)
	var created struct{ ID string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&created))
	require.NoError(t, res.Body.Close())
	res, err = http.Post(url+"/v1/sessions/"+created.ID+"/score", "text/plain",
		strings.NewReader(text))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(t, res.Body.Close())

	sessions := func(args ...string) (out, stderr string, code int) {
		if slices.Contains([]string{"check", "replay", "export", "import"}, args[0]) {
			args = append(args, "--model", model)
		}
		return lmserve("", append([]string{"sessions", "--data-dir", dir}, args...)...)
	}
	ok := func(args ...string) string {
		out, stderr, code := sessions(args...)
		require.Zero(t, code, "%v: %s", args, stderr)
		return out
	}
	_, stderr, code := sessions("list")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "in use by another process")
	stop()

	require.Contains(t, ok("list"), created.ID)
	var listed []storedSession
	require.NoError(t, json.Unmarshal([]byte(ok("list", "--json")), &listed))
	require.Len(t, listed, 1)
	require.Equal(t, int64(500), listed[0].Offset)
	var shown storedSession
	require.NoError(t, json.Unmarshal([]byte(ok("show", created.ID)), &shown))
	require.Equal(t, map[string]string{"a": "b"}, shown.Labels)
	require.Equal(t, listed[0].Bits, shown.Bits)
	require.Equal(t, "1 sessions, 0 findings\n", ok("check"))
	require.Contains(t, ok("replay"), "records, all bit-identical")

	file := filepath.Join(t.TempDir(), "one.session")
	ok("export", created.ID, "--out", file)
	_, stderr, code = sessions("export", created.ID, "--out", file)
	require.Equal(t, exitFailure, code, "%s", stderr)
	imported := strings.TrimSpace(ok("import", file, "--owner", "5f0c6c1d9ea23b47", "--name",
		"copy"))
	named := strings.TrimSpace(ok("import", file, "--name", "copy"))
	_, stderr, code = sessions("import", file, "--name", "copy")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, `another session has the name "copy"`)
	_, stderr, code = sessions("show", "copy")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, imported+", "+named, "names are their owners'")
	ok("delete", named)
	require.Contains(t, ok("replay", "copy"), imported)
	require.Contains(t, ok("list"), " copy ")
	require.Contains(t, ok("list"), "5f0c6c1d9ea23b47")
	var again storedSession
	require.NoError(t, json.Unmarshal([]byte(ok("show", "copy")), &again))
	require.Equal(t, imported, again.ID)
	require.Equal(t, shown.Bits, again.Bits)
	require.Len(t, again.Snapshots, 1)

	snapshots, err := filepath.Glob(filepath.Join(dir, "sessions", imported, "state.*"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	require.NoError(t, os.Truncate(snapshots[0], 100))
	out, stderr, code := sessions("check")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, filepath.Base(snapshots[0]))
	require.Contains(t, stderr, errFindings.Error())
	require.Contains(t, ok("replay", imported), "all bit-identical", "from the text alone")
	ok("delete", imported)
	require.Equal(t, "1 sessions, 0 findings\n", ok("check"))
	_, stderr, code = sessions("show", imported)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "not found")
	_, _, code = lmserve("", "sessions", "list", "--data-dir", filepath.Join(dir, "nothing"))
	require.Equal(t, exitFailure, code)
	_, stderr, code = lmserve("", "sessions", "list", "--data-dir", "none")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--data-dir is none")
}

// A signal ends a check with an error and without a summary, even if the check has found damage. In
// JSON, the findings before the signal are printed.
func TestCheckAfterDamageCanBeInterrupted(t *testing.T) {
	dir, flags := t.TempDir(), []string{"--model", smallModel(t)}
	text, _ := beginning(t, 500)
	flags = append(flags, "--data-dir", dir)
	must(t, text, append([]string{"score", "--session", "news"}, flags...)...)
	file := filepath.Join(t.TempDir(), "news.session")
	must(t, "", append([]string{"sessions", "export", "news", "--out", file}, flags...)...)
	imports := append([]string{"sessions", "import", file}, flags...)
	damaged := strings.TrimSpace(must(t, "", imports...))
	must(t, "", imports...)
	snapshots, err := filepath.Glob(filepath.Join(dir, "sessions", damaged, "state.*"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	require.NoError(t, os.Truncate(snapshots[0], 100))

	ctx, cancel := context.WithCancelCause(t.Context())
	out, errs := new(endingWriter), new(bytes.Buffer)
	out.end = func(err error) {
		if strings.Count(out.String(), "\n") == 1 { // the files of the session are checked
			cancel(err)
		}
	}
	code := run(ctx, append([]string{"sessions", "check"}, flags...), nil, out, errs)
	require.Equal(t, exitSignal+int(syscall.SIGINT), code, errs)
	require.Contains(t, out.String(), damaged)
	require.NotContains(t, out.String(), "findings")

	var told struct{ Findings []string }
	for asks := 1; told.Findings == nil; asks++ { // until the check has found the damage
		ctx, cancel := context.WithCancelCause(t.Context())
		ending := &endingContext{Context: ctx, end: cancel}
		ending.asks.Store(int32(asks))
		out, errs := new(bytes.Buffer), new(bytes.Buffer)
		code := run(ending, append([]string{"sessions", "check", "--json"}, flags...), nil, out,
			errs)
		require.Equal(t, exitSignal+int(syscall.SIGINT), code, errs)
		if out.Len() > 0 {
			require.NoError(t, json.Unmarshal(out.Bytes(), &told))
		}
	}
	require.Len(t, told.Findings, 1)
	require.Contains(t, told.Findings[0], damaged)
}

// endingContext ends when it was asked for its error a number of times.
type endingContext struct {
	context.Context
	asks atomic.Int32
	end  func(error)
}

func (c *endingContext) Err() error {
	if c.asks.Add(-1) == 0 {
		c.end(signalError{syscall.SIGINT})
	}
	return c.Context.Err()
}
