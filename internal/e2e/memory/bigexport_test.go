package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/weights"
)

// grown appends text to a session's export, in log records of `record` bytes. An import accepts the
// result, because it does not score the text again. The exported state must have a full memory and
// no pending tokens.
func grown(t testing.TB, export []byte, text []byte, record int64) []byte {
	t.Helper()
	x, err := program.ReadExport(export)
	require.NoError(t, err)
	f := x.State
	var snapshot struct {
		Step     uint64
		Settings struct{ Chunk int64 }
		Tally    struct {
			Bytes int64
			Bits  float64
		}
	}
	header := f.Metadata["lmserve.snapshot"]
	require.NoError(t, json.Unmarshal([]byte(header), &snapshot))
	chunk, total := snapshot.Settings.Chunk, int64(len(text))
	require.Zero(t, total%chunk)
	replace := func(name string, before, after any) {
		old := fmt.Sprintf(`"%s":%v`, name, before)
		require.Contains(t, header, old)
		header = strings.Replace(header, old, fmt.Sprintf(`"%s":%v`, name, after), 1)
	}
	replace("step", snapshot.Step, total/chunk)
	for _, name := range []string{"bytes", "chars", "tokens"} {
		replace(name, snapshot.Tally.Bytes, total)
	}
	f.Metadata["lmserve.snapshot"] = header

	var b, state bytes.Buffer
	a := folder.NewExporter(&b, x.ID, time.Unix(0, 0))
	require.NoError(t, a.Head(0, x.Head))
	for at := int64(0); at < total; at += record {
		r := storage.Record{UnixMS: 1_790_000_000_000, Text: text[at:min(total, at+record)]}
		if at+record >= total {
			r.Bits = snapshot.Tally.Bits
		}
		require.NoError(t, a.Append(at, r))
	}
	require.NoError(t, storage.CompressSnapshot(t.Context(), &state, func(w io.Writer) error {
		return weights.Write(w, f)
	}))
	content := bytes.NewReader(state.Bytes())
	require.NoError(t, a.State(total, io.NewSectionReader(content, 0, content.Size())))
	require.NoError(t, a.Close())
	return b.Bytes()
}
