package weights

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func compressedFile(t *testing.T, value float32) []byte {
	t.Helper()
	f := &File{Tensors: []Tensor{F32Tensor("w", []int{1}, []float32{value})}}
	var b bytes.Buffer
	require.NoError(t, Write(&b, f))
	return b.Bytes()
}

func TestEmbeddedModelsAreReadByTheirNames(t *testing.T) {
	s := shelf{{"first", compressedFile(t, 1)}, {"tiny", compressedFile(t, 2)},
		{"bad", []byte("{")}}
	require.Equal(t, []string{"first", "tiny", "bad"}, s.names())
	for name, want := range map[string]float32{"first": 1, "tiny": 2} {
		f, err := s.read(name)
		require.NoError(t, err)
		values, err := f.Tensors[0].Float32s()
		require.NoError(t, err)
		require.Equal(t, []float32{want}, values)
		again, err := s.read(name)
		require.NoError(t, err)
		require.NotSame(t, f, again)
	}
	_, err := s.read("huge")
	require.ErrorContains(t, err, `found "huge", expected first, tiny, bad`)
	_, err = s.read("bad")
	require.ErrorContains(t, err, "embedded model bad")
}

func TestModelsAreEmbedded(t *testing.T) {
	require.Equal(t, []string{DefaultName, "swift"}, EmbeddedNames())
	f, err := Default()
	require.NoError(t, err)
	named, err := Embedded(DefaultName)
	require.NoError(t, err)
	require.Equal(t, f.Hash(), named.Hash())
	require.Equal(t, DefaultHash, f.Hash(), "another default model has other constants")
}
