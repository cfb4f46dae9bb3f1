package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const fixture = "testdata/txl_small.safetensors"

func i32Tensor(name string, shape []int, values []int32) Tensor {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(v))
	}
	return Tensor{Name: name, DType: I32, Shape: shape, Data: data}
}

func drawFile(t *rapid.T) *File {
	f := &File{Metadata: rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "metadata")}
	name := rapid.String().Filter(func(s string) bool { return s != metadataKey })
	names := rapid.SliceOfNDistinct(name, 0, 6, rapid.ID[string]).Draw(t, "names")
	for _, name := range names {
		d := rapid.SampledFrom([]DType{F64, F32, F16, BF16, I64, I32, U8}).Draw(t, "dtype")
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
		n, _ := product(shape)
		data := rapid.SliceOfN(rapid.Byte(), n*d.Size(), n*d.Size()).Draw(t, "data")
		f.Tensors = append(f.Tensors, Tensor{Name: name, DType: d, Shape: shape, Data: data})
	}
	return f
}

func small() *File {
	return &File{
		Metadata: map[string]string{"kind": "small", "a \"quoted\" key\n": "é 𝄞"},
		Tensors: []Tensor{
			F32Tensor("w", []int{2, 3}, []float32{1, -2, 3.5, 0, 1e-30, 7}),
			i32Tensor("scalar", []int{}, []int32{-9}),
			F32Tensor("empty", []int{0, 5}, nil),
			BF16Tensor("b", []int{3}, []float32{1, 2, -3}),
		},
	}
}

func written(t require.TestingT, f *File) []byte {
	var b bytes.Buffer
	require.NoError(t, Write(&b, f))
	return b.Bytes()
}

func compressed(t require.TestingT, f *File) []byte {
	var b bytes.Buffer
	require.NoError(t, f.Stored().writeZstd(&b, 3))
	return b.Bytes()
}

func requireSame(t require.TestingT, want, got *File) {
	require.Equal(t, len(want.Metadata), len(got.Metadata))
	for key, value := range want.Metadata {
		require.Equal(t, value, got.Metadata[key])
	}
	require.Len(t, got.Tensors, len(want.Tensors))
	for i, w := range want.Tensors {
		g := got.Tensors[i]
		require.Equal(t, w.Name, g.Name)
		require.Equal(t, w.DType, g.DType)
		require.True(t, slices.Equal(w.Shape, g.Shape), "shape of %q: %v, want %v", w.Name, g.Shape,
			w.Shape)
		require.True(t, bytes.Equal(w.Data, g.Data), "data of %q", w.Name)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		plain := written(t, f)
		header := binary.LittleEndian.Uint64(plain)
		require.Zero(t, header%8, "header length")
		for _, b := range [][]byte{plain, compressed(t, f)} {
			got, err := Read(bytes.NewReader(b), Limits{})
			require.NoError(t, err)
			requireSame(t, f, got)
		}
	})
}

// The expected numbers were read from the file with the struct module of Python.
func TestFileOfTheReferenceImplementationIsRead(t *testing.T) {
	f, err := ReadFile(fixture)
	require.NoError(t, err)
	require.Len(t, f.Tensors, 71)
	require.Equal(t, "txl", f.Metadata["kind"])
	require.Equal(t, "1e-05", f.Metadata["layer_norm_eps"])
	require.Equal(t, "word_emb.emb_layers.0.weight", f.Tensors[0].Name)
	require.Equal(t, "grad.crit.out_layers.0.bias", f.Tensors[70].Name)

	for _, c := range []struct {
		name          string
		shape         []int
		first, second float32
		last          float32
	}{
		{"word_emb.emb_layers.0.weight", []int{32, 16}, -0x1.485270p-6, -0x1.511cacp-3,
			0x1.776950p-4},
		{"pos_emb.inv_freq", []int{8}, 1, 0x1.43d136p-2, 0x1.4b96bep-12},
		{"seg2.nll", []int{8, 2}, 0x1.1431f0p+2, 0x1.d43a28p+1, 0x1.babeccp+1},
		{"grad.crit.out_layers.0.bias", []int{32}, 0x1.098908p-5, 0x1.8988fcp-5, -0x1.b64458p-4},
	} {
		w, ok := f.Tensor(c.name)
		require.True(t, ok, c.name)
		require.Equal(t, F32, w.DType)
		require.Equal(t, c.shape, w.Shape)
		values, err := w.Float32s()
		require.NoError(t, err)
		require.Len(t, values, w.Elements())
		require.Equal(t, c.first, values[0], c.name)
		require.Equal(t, c.second, values[1], c.name)
		require.Equal(t, c.last, values[len(values)-1], c.name)
	}

	input, ok := f.Tensor("seg0.input")
	require.True(t, ok)
	ids, err := input.Int32s()
	require.NoError(t, err)
	require.Len(t, ids, 16)
	require.Equal(t, []int32{9, 14, 26}, []int32{ids[0], ids[1], ids[15]})

	_, ok = f.Tensor("no such tensor")
	require.False(t, ok)
}

// The expected hash was computed by a Python implementation of the documented definition.
func TestHashIsTheDocumentedOne(t *testing.T) {
	f, err := ReadFile(fixture)
	require.NoError(t, err)
	require.Equal(t, "b83358bd4b5bf1facbda432f8ea2271f2e9a5dff3579c7aa104852a5d5a56d88", f.Hash())
}

func TestHashDoesNotDependOnOrderOrCompression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		shuffled := &File{Metadata: f.Metadata, Tensors: rapid.Permutation(f.Tensors).Draw(t,
			"order")}
		for _, b := range [][]byte{written(t, shuffled), compressed(t, shuffled)} {
			got, err := Read(bytes.NewReader(b), Limits{})
			require.NoError(t, err)
			require.Equal(t, f.Hash(), got.Hash())
		}
	})
}

func TestHashSeesEveryChange(t *testing.T) {
	seen := map[string]string{small().Hash(): "unchanged"}
	differs := func(what string, change func(f *File)) {
		f := small()
		change(f)
		h := f.Hash()
		require.NotContains(t, seen, h, what)
		seen[h] = what
	}
	for i, tensor := range small().Tensors {
		for j := range tensor.Data {
			differs(fmt.Sprintf("byte %d of %s", j, tensor.Name),
				func(f *File) { f.Tensors[i].Data[j] ^= 1 })
		}
	}
	differs("name", func(f *File) { f.Tensors[0].Name = "v" })
	differs("dtype", func(f *File) { f.Tensors[0].DType = I32 })
	differs("shape", func(f *File) { f.Tensors[0].Shape = []int{3, 2} })
	differs("shape of an empty tensor", func(f *File) { f.Tensors[2].Shape = []int{0, 6} })
	differs("scalar or one element", func(f *File) { f.Tensors[1].Shape = []int{1} })
	differs("tensor gone", func(f *File) { f.Tensors = f.Tensors[:3] })
	differs("metadata value", func(f *File) { f.Metadata["kind"] = "smal" })
	differs("metadata key", func(f *File) {
		delete(f.Metadata, "kind")
		f.Metadata["kinds"] =
			"mall"
	})
	differs("metadata added", func(f *File) { f.Metadata["x"] = "" })
	differs("no metadata", func(f *File) { f.Metadata = nil })
}

func TestElementsAreConverted(t *testing.T) {
	raw := func(d DType, words ...uint64) *Tensor {
		var data []byte
		for _, w := range words {
			data = append(data, binary.LittleEndian.AppendUint64(nil, w)[:d.Size()]...)
		}
		return &Tensor{Name: "t", DType: d, Shape: []int{len(words)}, Data: data}
	}
	third := math.Float64bits(1.0 / 3)
	for _, c := range []struct {
		tensor *Tensor
		want   []float32
	}{
		{raw(F64, third, math.Float64bits(-2)), []float32{float32(1.0 / 3), -2}},
		{raw(F32, 0x3fc00000), []float32{1.5}},
		{raw(F16, 0x3e00, 0xfbff), []float32{1.5, -65504}},
		{raw(BF16, 0x3fc0), []float32{1.5}},
	} {
		got, err := c.tensor.Float32s()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		_, err = c.tensor.Int32s()
		require.ErrorIs(t, err, ErrDType)
	}
	for _, tensor := range []Tensor{
		F32Tensor("t", []int{2}, []float32{-1.5, 0x1.8p-20}),
		F16Tensor("t", []int{2}, []float32{-1.5, 0x1.8p-20}),
		BF16Tensor("t", []int{2}, []float32{-1.5, 0x1.8p-20}),
	} {
		got, err := tensor.Float32s()
		require.NoError(t, err)
		require.Equal(t, []float32{-1.5, 0x1.8p-20}, got, "%s holds both exactly", tensor.DType)
	}
	for _, c := range []struct {
		tensor *Tensor
		want   []int32
	}{
		{raw(I64, math.MaxUint64, math.MaxInt32), []int32{-1, math.MaxInt32}},
		{raw(I32, 0xffffffff), []int32{-1}},
		{raw(U8, 0xff), []int32{255}},
	} {
		got, err := c.tensor.Int32s()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		_, err = c.tensor.Float32s()
		require.ErrorIs(t, err, ErrDType)
	}
	_, err := raw(I64, 0, math.MaxInt32+1).Int32s()
	require.EqualError(t, err,
		`weights: tensor "t", element 1: found 2147483648, expected an int32: wrong element type`)
	torn := &Tensor{Name: "t", DType: F32, Shape: []int{2}, Data: make([]byte, 7)}
	_, err = torn.Float32s()
	require.EqualError(t, err,
		`weights: tensor "t", data: found 7 bytes, expected 8 bytes for F32[2]: not a `+
			`well-formed safetensors file`)
}

func TestEmbeddedModelIsReadable(t *testing.T) {
	f, err := Default()
	require.NoError(t, err)
	require.NotEmpty(t, f.Tensors)
	again, err := Default()
	require.NoError(t, err)
	require.Equal(t, f.Hash(), again.Hash())
	f.Tensors[0].Data[0] ^= 1
	require.NotEqual(t, f.Hash(), again.Hash(), "two calls must not share their data")
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, writeBytes(path, []byte(strings.Repeat("hello ", 10))))
	_, err := ReadFile(path)
	require.EqualError(t, err, "weights: "+path+": header length at byte 0: found "+
		"7307126058341131624, "+
		"expected at most 16777216, if this is a safetensors file: over the limit")
}
