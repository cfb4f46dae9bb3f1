package memory

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/weights"
)

// grown is an export of a session that has much more text than the one that was exported: so many
// bytes, in records of a size. It can be imported, as no import computes its text again. The state
// must be one that has no pending tokens, and a full memory.
func grown(t testing.TB, export []byte, text []byte, record int64) []byte {
	t.Helper()
	f, err := weights.Read(bytes.NewReader(export), weights.Limits{})
	require.NoError(t, err)
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
	columns := map[string][]byte{"log.text": text}
	for at := int64(0); at < total; {
		at = min(total, at+record)
		bits := snapshot.Tally.Bits
		if at < total {
			bits = 0
		}
		number := func(name string, n uint64) {
			columns[name] = binary.LittleEndian.AppendUint64(columns[name], n)
		}
		number("log.ends", uint64(at))
		number("log.times", 1_790_000_000_000)
		number("log.bits", math.Float64bits(bits))
	}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		if data, ok := columns[x.Name]; ok {
			x.Data, x.Shape = data, []int{len(data) / x.DType.Size()}
		}
	}
	delete(f.Metadata, "lmserve.export")
	f.Metadata["lmserve.export"] = fmt.Sprintf(`{"version":1,"content":"%s"}`, f.Hash())
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	require.NoError(t, err)
	require.NoError(t, weights.Write(z, f))
	require.NoError(t, z.Close())
	return b.Bytes()
}
