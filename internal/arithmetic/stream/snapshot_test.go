package stream

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/weights"
)

func snapshotBytes(t require.TestingT, s *Stream) []byte {
	f, err := s.Snapshot()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, weights.Write(&b, f))
	return b.Bytes()
}

func restored(t require.TestingT, m *model.Model, set Settings, file []byte) *Stream {
	f, err := weights.Read(bytes.NewReader(file), weights.Limits{})
	require.NoError(t, err)
	s, numerics, err := Restore(m, set, f.Stored())
	require.NoError(t, err)
	require.Equal(t, kernel.Arithmetic{}.Numerics(), numerics)
	return s
}

func anySettings(t *rapid.T, m *model.Model) Settings {
	return settings(m, func(set *Settings) {
		set.Baseline = rapid.Bool().Draw(t, "baseline")
		set.Chunk = rapid.SampledFrom([]int{1, 5, testChunk, 33}).Draw(t, "chunk")
		set.Method = rapid.SampledFrom(Methods()).Draw(t, "method")
		set.Companion = rapid.Bool().Draw(t, "companion")
		set.CompanionStatic = rapid.Bool().Draw(t, "companion_static")
		set.SkipBelow = rapid.SampledFrom([]float64{0, 5.5, 8, 32}).Draw(t, "skip_below")
	})
}

func TestRestoredStreamContinuesToSameBits(t *testing.T) {
	eachModel(t, goesOnFromASnapshot)
}

func goesOnFromASnapshot(t *testing.T, m *model.Model) {
	w, other := testWorker(t, m, 1), testWorker(t, m, 2)
	rapid.Check(t, func(t *rapid.T) {
		set := anySettings(t, m)
		whole := New(m, set)
		want := scored(w, whole, text)
		s := New(m, set)
		var got []float32
		for _, piece := range pieces(t, text) {
			got = append(got, scored(w, s, piece)...)
			if rapid.Bool().Draw(t, "through a file") {
				before := s.Hash()
				s = restored(t, m, set, snapshotBytes(t, s))
				require.Equal(t, before, s.Hash())
				w, other = other, w
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, whole.Hash(), s.Hash())
		require.Equal(t, whole.FastRMS(), s.FastRMS())
		require.Equal(t, whole.MemoryBytes(), s.MemoryBytes())
	})
}

func TestSnapshotBeforeChunkIsSettled(t *testing.T) {
	eachModel(t, snapshotsComeBeforeAnUpdate)
}

func snapshotsComeBeforeAnUpdate(t *testing.T, m *model.Model) {
	w := testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		s := New(m, settings(m, methodIs(method)))
		w.Feed(s, []byte(text[:testChunk]), nil)
		next := []byte(text[testChunk : 2*testChunk])
		w.Commit(s, w.Score(s, next))
		again := restored(t, m, s.Settings, snapshotBytes(t, s))
		require.Zero(t, again.Room())
		w.Settle(s)
		w.Settle(again)
		require.Equal(t, s.Hash(), again.Hash())
	})
}

func TestSnapshotIsFunctionOfState(t *testing.T) {
	m := testModel(t)
	one, two := testWorker(t, m, 1), testWorker(t, m, 3)
	rapid.Check(t, func(t *rapid.T) {
		set := anySettings(t, m)
		whole, split := New(m, set), New(m, set)
		one.Feed(whole, []byte(text), nil)
		for _, piece := range pieces(t, text) {
			two.Feed(split, []byte(piece), nil)
		}
		file := snapshotBytes(t, whole)
		require.Equal(t, file, snapshotBytes(t, split))
		require.Equal(t, file, snapshotBytes(t, restored(t, m, set, file)))
	})
}

func TestSnapshotSharesNothingWithItsStream(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		s := New(m, settings(m, methodIs(method)))
		w.Feed(s, []byte(text[:40]), nil)
		f, err := s.Snapshot()
		require.NoError(t, err)
		before := f.Hash()
		again, _, err := Restore(m, s.Settings, f.Stored())
		require.NoError(t, err)
		w.Feed(s, []byte(text[40:]), nil)
		w.Feed(again, []byte(text[40:]), nil)
		require.Equal(t, before, f.Hash())
		require.Equal(t, s.Hash(), again.Hash())
	})
}

// snapshotOf returns the snapshot of a stream in the middle of its fourth chunk, with every kind of
// state that the method has.
func snapshotOf(t require.TestingT, m *model.Model, method string) (*weights.File, Settings) {
	set := settings(m, func(s *Settings) { s.Method, s.Baseline = method, true })
	w := NewWorker(m, 1)
	defer w.Close()
	s := New(m, set)
	w.Feed(s, []byte(text[:3*testChunk+5]), nil)
	f, err := s.Snapshot()
	require.NoError(t, err)
	return f, set
}

func replace(old, new string) func(*weights.File) {
	return func(f *weights.File) {
		text := f.Metadata[keySnapshot]
		if !strings.Contains(text, old) {
			panic(old + " not in " + text)
		}
		f.Metadata[keySnapshot] = strings.Replace(text, old, new, 1)
	}
}

func tensor(name string, change func(*weights.Tensor)) func(*weights.File) {
	return func(f *weights.File) {
		t, ok := f.Tensor(name)
		if !ok {
			panic(name)
		}
		change(t)
	}
}

func TestMisfitSnapshotIsRefusedWithItsPlace(t *testing.T) {
	m := testModel(t)
	const fast = "fast.1.M.crit.out_layers.0.bias"
	shape := func(dims ...int) func(*weights.Tensor) {
		return func(t *weights.Tensor) {
			t.Shape =
				dims
		}
	}
	for _, c := range []struct {
		method, says string
		spoil        func(*weights.File)
	}{
		{SparseMeta, "metadata lmserve.snapshot is missing",
			func(f *weights.File) { f.Metadata = nil }},
		{SparseMeta, "unexpected end of JSON", func(f *weights.File) {
			f.Metadata[keySnapshot] =
				"{"
		}},
		{SparseMeta, "version is 2, expected 1", replace(`"version":1`, `"version":2`)},
		{SparseMeta, "version is 0, expected 1", replace(`"version":1,`, ``)},
		{SparseMeta, `expected "step\":0`, replace(`"step":3,`, ``)},
		{SparseMeta, `found "new\":1`, replace(`"step":3,`, `"new":1,"step":3,`)},
		{SparseMeta, `found "Step\":3`, replace(`"step":3,`, `"Step":3,`)},
		{SparseMeta, "after top-level value", replace(`"step":3,`, `"step":3}{`)},
		{SparseMeta, "expected " + m.Hash(), replace(`"model":"`, `"model":"0`)},
		{SparseMeta, `settings are {"method":"sparse-meta"`, replace(`"seed":3`, `"seed":4`)},
		{SparseMeta, "settings are", replace(`"p":0.5`, `"p":0.25`)},
		{SparseMeta, "settings are", replace(`"baseline":true`, `"baseline":false`)},
		{SparseMeta, "54 bytes", replace(`"bytes":53`, `"bytes":54`)},
		{SparseMeta, "expected all tokens of 2 chunks of 16", replace(`"step":3`, `"step":2`)},
		{SparseMeta, "expected all tokens of 4 chunks of 16", replace(`"step":3`, `"step":4`)},
		{SparseMeta, "all tokens of 18446744073709551615 chunks",
			replace(`"step":3`, `"step":18446744073709551615`)},
		{SparseMeta, "tally.bits is -", replace(`"bits":`, `"bits":-`)},
		{SparseMeta, "baseline_bits is -", replace(`"baseline_bits":`, `"baseline_bits":-`)},
		{SparseMeta, `last" is token -1, expected 0 to 255`,
			replace(`"last":`+fmt.Sprint(text[47]), `"last":-1`)},
		{SparseMeta, `written" is -`, replace(`"written":`, `"written":-`)},
		{DynamicSGD, `written" is`, replace(`"written":`, `"written":9`)},
		{Static, `written" is 1, expected 0 to 0`, replace(`"written":0`, `"written":1`)},
		{SparseMeta, `tensor "pending" has type and shape I32[4], expected I32[5]`,
			tensor("pending", shape(4))},
		{SparseMeta, `tensor "pending", element 1 is token 256, expected 0 to 255`,
			tensor("pending", func(t *weights.Tensor) { t.Data[4], t.Data[5] = 0, 1 })},
		{SparseMeta, `tensor "pending" has type and shape F32[5], expected I32[5]`,
			tensor("pending", func(t *weights.Tensor) { t.DType = weights.F32 })},
		{SparseMeta, `tensor "` + fast + `" is missing, expected`,
			tensor(fast, func(t *weights.Tensor) { t.Name = "x" })},
		{SparseMeta, `tensor "` + fast + `" has type and shape`, tensor(fast, shape(16))},
		{SparseMeta, `tensor "` + fast + `", element 0 is NaN`,
			tensor(fast, func(t *weights.Tensor) { *t = notANumber(*t) })},
		{SparseMeta, `tensor "more" does not belong to a stream`,
			func(f *weights.File) {
				f.Tensors = append(f.Tensors, weights.F32Tensor("more",
					[]int{0}, nil))
			}},
		{SparseMeta, "tensors, expected", func(f *weights.File) {
			f.Tensors = append(f.Tensors,
				f.Tensors[0])
		}},
		{Static, `tensor "memory.1" has type and shape F32[19 16], expected F32[20 16]`,
			tensor("memory.1", shape(19, 16))},
		{SparseMeta, `tensor "baseline.memory.0", element 0 is NaN`, tensor("baseline.memory.0",
			func(t *weights.Tensor) { *t = notANumber(*t) })},
		{DynamicRMS, `tensor "dynamic.M.r_w_bias", element 0 is NaN`, tensor("dynamic.M.r_w_bias",
			func(t *weights.Tensor) { *t = notANumber(*t) })},
		{Cache, `tensor "cache.keys" has type and shape F32[23 16], expected F32[24 16]`,
			tensor("cache.keys", shape(23, 16))},
		{Cache, `tensor "cache.next", element 3 is token -1`,
			tensor("cache.next", func(t *weights.Tensor) {
				copy(t.Data[12:16],
					"\xff\xff\xff\xff")
			})},
	} {
		f, set := snapshotOf(t, m, c.method)
		f.Tensors = slices.Clone(f.Tensors)
		_, _, err := Restore(m, set, f.Stored())
		require.NoError(t, err)
		c.spoil(f)
		_, _, err = Restore(m, set, f.Stored())
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "stream: snapshot: ")
	}
	f, set := snapshotOf(t, m, SparseMeta)
	set.Chunk = 0
	_, _, err := Restore(m, set, f.Stored())
	require.ErrorContains(t, err, "chunk is 0", "settings that are none")
}

func notANumber(t weights.Tensor) weights.Tensor {
	values, err := t.Float32s()
	if err != nil {
		panic(err)
	}
	values[0] = float32(math.NaN())
	return weights.FloatTensor(t.Name, t.DType, t.Shape, values)
}

// Snapshots may contain non-finite gradient averages, because the meta-learner accepts them. All
// other numbers must be finite.
func TestNumbersThatAreNotFinite(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, nil))
	w.Feed(s, []byte(text[:40]), nil)
	s.Fast.I[1].BF16[0] = 0xff80 // -Inf
	require.Equal(t, s.Hash(), restored(t, m, s.Settings, snapshotBytes(t, s)).Hash())
	s.Fast.M[1].BF16[0] = 0x7fc0 // NaN
	_, err := s.Snapshot()
	require.ErrorContains(t, err, "element 0 is NaN, expected a finite number")
	s.Fast.M[1].BF16[0] = 0
	s.Tally.Bits = math.Inf(1)
	_, err = s.Snapshot()
	require.ErrorContains(t, err, "+Inf")
}

func TestFrozenStreamHasNoSnapshot(t *testing.T) {
	_, err := New(testModel(t), settings(testModel(t), nil)).Frozen().Snapshot()
	require.ErrorContains(t, err, "frozen")
}

func TestNumericsOfSnapshotAreReported(t *testing.T) {
	m := testModel(t)
	f, set := snapshotOf(t, m, SparseMeta)
	replace(kernel.Arithmetic{}.Numerics(), "float32-other")(f)
	_, numerics, err := Restore(m, set, f.Stored())
	require.NoError(t, err)
	require.Equal(t, "float32-other", numerics)
}

// FuzzRestore checks that Restore never panics. A snapshot of a restored stream must equal the
// accepted file.
func FuzzRestore(f *testing.F) {
	m := testModel(f)
	var sets []Settings
	for _, method := range Methods() {
		file, set := snapshotOf(f, m, method)
		sets = append(sets, set)
		var b bytes.Buffer
		require.NoError(f, weights.Write(&b, file))
		f.Add(uint8(len(sets)-1), b.Bytes())
		if LearnsByLine(method) {
			s, file := heldSnapshot(f, method)
			b.Reset()
			require.NoError(f, weights.Write(&b, file))
			f.Add(uint8(len(sets)), b.Bytes())
			sets = append(sets, s.Settings)
		}
	}
	f.Fuzz(func(t *testing.T, method uint8, b []byte) {
		file, err := weights.Read(bytes.NewReader(b), weights.Limits{HeaderBytes: 1 << 16,
			DataBytes: 1 << 20, Tensors: 1 << 10})
		if err != nil {
			return
		}
		checkRestore(t, m, sets[int(method)%len(sets)], file)
	})
}

func FuzzRestoreHeader(f *testing.F) {
	m := testModel(f)
	file, set := snapshotOf(f, m, Cache)
	f.Add(file.Metadata[keySnapshot])
	f.Fuzz(func(t *testing.T, text string) {
		checkRestore(t, m, set, &weights.File{Metadata: map[string]string{keySnapshot: text},
			Tensors: file.Tensors})
	})
}

func checkRestore(t *testing.T, m *model.Model, set Settings, f *weights.File) {
	s, numerics, err := Restore(m, set, f.Stored())
	if err != nil {
		require.ErrorContains(t, err, "stream: snapshot: ")
		return
	}
	again, err := s.Snapshot()
	require.NoError(t, err)
	again.Metadata[keySnapshot] = strings.Replace(again.Metadata[keySnapshot],
		asJSON(kernel.Arithmetic{}.Numerics()), asJSON(numerics), 1)
	require.Equal(t, f.Metadata[keySnapshot], again.Metadata[keySnapshot])
	require.Len(t, again.Tensors, len(f.Tensors))
	for _, tensor := range again.Tensors {
		original, ok := f.Tensor(tensor.Name)
		require.True(t, ok)
		require.Equal(t, *original, tensor)
	}
}
