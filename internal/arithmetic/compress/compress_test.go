package compress

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

func small(t require.TestingT) *model.Model {
	m, err := modeltest.Small()
	require.NoError(t, err)
	return m
}

func pack(t require.TestingT, m *model.Model, set stream.Settings, threads int,
	text []byte) ([]byte, Compressed) {
	told := 0
	c, err := Compress(context.Background(), m, set, threads, text, func(n int) { told += n })
	require.NoError(t, err)
	require.Equal(t, len(text), told)
	return slices.Concat(c.Head, c.Text), c
}

func unpack(m *model.Model, threads int, file []byte) ([]byte, error) {
	r, err := Open(file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = r.Decompress(context.Background(), m, threads, &out)
	return out.Bytes(), err
}

func TestTextsComeBack(t *testing.T) {
	m := small(t)
	rapid.Check(t, func(rt *rapid.T) {
		set := stream.DefaultsFor(m, rapid.SampledFrom(stream.Methods()).Draw(rt, "method"))
		set.Chunk = rapid.IntRange(1, modeltest.Chunk).Draw(rt, "chunk")
		set.Seed = rapid.Uint64().Draw(rt, "seed")
		set.Baseline = rapid.Bool().Draw(rt, "baseline")
		if rapid.Bool().Draw(rt, "diverging") {
			set.SGD.Rate, set.RMS.Rate = 1000, 1000
		}
		text := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "text")
		file, _ := pack(rt, m, set, 1, text)
		back, err := unpack(m, 2, file)
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(text, back))
	})
}

// A file made with AVX-512 can be read with AVX2, and vice versa.
func TestTextsComeBackWithOtherInstructions(t *testing.T) {
	m := *small(t)
	text := []byte("the same bits from all instructions of one arithmetic, the same bits\n")
	var files [][]byte
	for _, set := range []kernel.Instructions{kernel.AVX2, kernel.AVX512} {
		m.Arithmetic = kernel.Arithmetic{Instructions: set}
		if err := m.Arithmetic.Validate(); err != nil {
			t.Skip(err)
		}
		file, _ := pack(t, &m, stream.Defaults(&m), 1, text)
		files = append(files, file)
	}
	require.Equal(t, files[0], files[1])
	m.Arithmetic = kernel.Arithmetic{Instructions: kernel.AVX2}
	back, err := unpack(&m, 1, files[1])
	require.NoError(t, err)
	require.Equal(t, text, back)
}

func TestSizeIsThatOfBits(t *testing.T) {
	m := small(t)
	text := bytes.Repeat([]byte("what was there before is cheap. "), 200)
	_, c := pack(t, m, stream.Defaults(m), 1, text)
	w, s := stream.NewWorker(m, 1), stream.New(m, stream.Defaults(m))
	defer w.Close()
	w.Feed(s, text, nil)
	require.Equal(t, s.Tally.Bits, c.Bits)
	require.InDelta(t, c.Bits/8, float64(len(c.Text)), max(1, 1e-3*c.Bits/8),
		"a whole byte ends it")
}

// Only the model file, the header and the version determine how a text was compressed. So a later
// version of the program with different default settings restores the same text.
func TestHeaderHasTheDefaultsOfTheProgram(t *testing.T) {
	require.Equal(t, 2, version)
	require.Equal(t, 2, companion.Version)
	m := small(t)
	file, _ := pack(t, m, stream.Defaults(m), 1, nil)
	r, err := Open(file)
	require.NoError(t, err)
	require.Equal(t, setting.Values{"companion": true, "skip_below": 0.75}, r.Settings)
}

func TestFilesThatAreWrong(t *testing.T) {
	m := small(t)
	text := []byte("a text of some length, so that there is something to damage\n")
	file, _ := pack(t, m, stream.Defaults(m), 1, text)
	fails := func(file []byte, want string) {
		t.Helper()
		_, err := unpack(m, 1, file)
		require.ErrorContains(t, err, want)
	}
	fails(nil, `byte 0: found "", expected "LMSC"`)
	fails([]byte("text\n"),
		`byte 0: found "text", expected "LMSC": the file is not a text compressed by lmserve`)
	fails(file[:7],
		"the file ends at byte 7, expected at least 9 bytes, including the length of the header")
	fails(file[:30], "the file ends at byte 30")
	fails(slices.Concat(file[:4], []byte{1}, file[5:]), "byte 4: found version 1 of the "+
		"format, expected 2: the file is from another version of lmserve")
	fails(slices.Concat(file[:5], []byte{1, 0, 0, 0}, file[9:]), "byte 5: the header has "+
		"16777216 bytes, expected at most 65536")
	fails(bytes.Replace(file, []byte(`"bytes"`), []byte(`"bites"`), 1), "header: ")
	fails(bytes.Replace(file, []byte(`"bytes":60`), []byte(`"bytes":-6`), 1),
		"header: the field \"bytes\" is -6")
	fails(bytes.Replace(file, []byte(m.ID()), []byte("some-other-model-012345678")[:len(m.ID())],
		1), "but the text was compressed with")
	fails(bytes.Replace(file, []byte(m.Arithmetic.Numerics()),
		[]byte("float64-fma")[:len(m.Arithmetic.Numerics())], 1), "arithmetic")
	set := stream.DefaultsFor(m, stream.Static)
	other, _ := pack(t, m, set, 1, text)
	with := func(settings string) []byte {
		const own = `{"companion":true,"method":"static"}`
		return bytes.Replace(other, []byte(own), fmt.Appendf(nil, "%-*s", len(own), settings), 1)
	}
	fails(with(`{"method":"statik"}`), `setting method: found "statik", expected static, `)
	fails(with(`{"methot":"static"}`), "setting methot: found an unknown setting")
	fails(with(`{"chunk":0}`), "setting chunk: found 0, expected 1 to ")
	fails(file[:len(file)-3], "of the text, expected a text of 60 bytes")
	fails(append(slices.Clone(file), 1, 2),
		"found 2 bytes after the end of the text, expected none")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		damaged := slices.Clone(file)
		damaged[len(magic)+5+rng.IntN(len(file)-len(magic)-5)] ^= 1 << rng.IntN(8)
		if back, err := unpack(m, 1, damaged); err == nil { // only unused bits were damaged
			require.Equal(t, text, back)
		}
	}
}

// A model of words is refused: it has no tokens for unknown words.
func TestModelOfWordsIsRefused(t *testing.T) {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	_, err = Compress(context.Background(), m, stream.Defaults(m), 1, []byte("the cat"), nil)
	require.ErrorContains(t, err, "expected a model of bytes")
}

func TestGivingUp(t *testing.T) {
	m := small(t)
	file, _ := pack(t, m, stream.Defaults(m), 1, make([]byte, 100))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Compress(ctx, m, stream.Defaults(m), 1, make([]byte, 100), func(int) {})
	require.ErrorIs(t, err, context.Canceled)
	r, err := Open(file)
	require.NoError(t, err)
	require.ErrorIs(t, r.Decompress(ctx, m, 1, new(bytes.Buffer)), context.Canceled)
}

func FuzzOpen(f *testing.F) {
	m := small(f)
	for _, text := range []string{"", "a", "ab\n", "\xff\x00"} {
		file, _ := pack(f, m, stream.Defaults(m), 1, []byte(text))
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Open(file)
		if err != nil || r.Bytes > 1000 {
			return
		}
		var out bytes.Buffer
		if err := r.Decompress(context.Background(), m, 1, &out); err == nil {
			require.Equal(t, r.Bytes, int64(out.Len()))
		}
		require.LessOrEqual(t, int64(out.Len()), r.Bytes)
	})
}
