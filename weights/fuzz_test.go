package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead checks that no input makes the reader panic, and that errors have a location. For an
// accepted plain file, encoding/json must read the same strings from the header. An accepted file
// must also survive writing and reading.
func FuzzRead(f *testing.F) {
	reference, err := os.ReadFile(fixture)
	require.NoError(f, err)
	f.Add(reference)
	f.Add(written(f, small()))
	f.Add(compressed(f, small()))
	f.Add(compressed(f, &File{}))
	f.Fuzz(checkRead)
}

// FuzzHeader is FuzzRead with only the JSON header as input. The test puts the correct length
// before the header, so that mutations reach the parser.
func FuzzHeader(f *testing.F) {
	f.Add(`{"\ud834\udd1e":{"shape":[],"dtype":"U8","data_offsets":[0,1]}} `, 1)
	f.Add(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"__metadata__":{"\u0000":"\\"}}`, 0)
	f.Add(
		`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[1,2],`+
			`"data_offsets":[3,11]}}`, 11)
	f.Fuzz(func(t *testing.T, header string, data int) { checkRead(t, framed(header, data&0xfff)) })
}

func checkRead(t *testing.T, b []byte) {
	got, err := Read(bytes.NewReader(b), Limits{HeaderBytes: 1 << 16, DataBytes: 1 << 20,
		Tensors: 1 << 8})
	if err != nil {
		require.True(t, located(err), "%v", err)
		return
	}
	if !bytes.HasPrefix(b, []byte(zstdMagic)) {
		requireSameJSON(t, b, got)
	}
	again, err := Read(bytes.NewReader(written(t, got)), Limits{})
	require.NoError(t, err)
	requireSame(t, got, again)
	require.Equal(t, got.Hash(), again.Hash())
}

func requireSameJSON(t *testing.T, b []byte, f *File) {
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b[prefixBytes:prefixBytes+binary.LittleEndian.Uint64(b)],
		&header))
	metadata := map[string]string{}
	if raw, ok := header[metadataKey]; ok {
		require.NoError(t, json.Unmarshal(raw, &metadata))
		delete(header, metadataKey)
	}
	require.Equal(t, metadata, f.Metadata)
	require.Len(t, header, len(f.Tensors))
	for _, w := range f.Tensors {
		var e struct {
			DType DType
			Shape []int
		}
		require.NoError(t, json.Unmarshal(header[w.Name], &e))
		require.Equal(t, e.DType, w.DType)
		require.Equal(t, e.Shape, w.Shape)
	}
}
