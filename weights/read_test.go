package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func writeBytes(path string, b []byte) error { return os.WriteFile(path, b, 0o644) }

// framed returns a file: the length of the header, the header, and the given number of zero bytes
// as data.
func framed(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, data)...)
}

// located reports whether err says that the content is invalid and has a place, a found value and
// an expected value.
func located(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	kind := errors.Is(err, ErrFormat) || errors.Is(err, ErrTruncated) ||
		errors.Is(err, ErrTooLarge) || errors.Is(err, ErrZstd)
	return kind && e.Where != "" && e.Found != "" && e.Want != "" && e.Offset >= 0
}

func TestEveryTruncationIsNoticed(t *testing.T) {
	plain := written(t, small())
	for n := range plain {
		_, err := Read(bytes.NewReader(plain[:n]), Limits{})
		require.ErrorIs(t, err, ErrTruncated, "%d of %d bytes", n, len(plain))
		require.True(t, located(err))
	}
	packed := compressed(t, small())
	for n := range packed {
		_, err := Read(bytes.NewReader(packed[:n]), Limits{})
		require.ErrorIs(t, err, ErrTruncated, "%d of %d compressed bytes", n, len(packed))
		require.Equal(t, n >= len(zstdMagic), errors.Is(err, ErrZstd), "%d compressed bytes: %v", n,
			err)
	}
}

func TestTruncationSaysWhatIsMissing(t *testing.T) {
	b := framed(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 5)
	_, err := Read(bytes.NewReader(b), Limits{})
	require.EqualError(t, err,
		`weights: tensor "w", data at byte 62: found 5 bytes, expected 8: file is truncated`)
}

// A flipped bit may be in a field of the zstd frame that does not affect the content. Then reading
// must give the original file.
func TestFlippedBitsNeverGiveAnotherFile(t *testing.T) {
	f := small()
	packed := compressed(t, f)
	for i := range packed {
		for bit := range 8 {
			bad := bytes.Clone(packed)
			bad[i] ^= 1 << bit
			got, err := Read(bytes.NewReader(bad), Limits{})
			if err == nil {
				requireSame(t, f, got)
				continue
			}
			require.True(t, located(err), "bit %d of byte %d: %v", bit, i, err)
		}
	}
}

func TestBytesAfterDataAreRefused(t *testing.T) {
	for n := 1; n <= 9; n++ {
		_, err := Read(bytes.NewReader(append(written(t, small()), make([]byte, n)...)), Limits{})
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, "more bytes")
		_, err = Read(bytes.NewReader(append(compressed(t, small()), make([]byte, n)...)), Limits{})
		require.ErrorIs(t, err, ErrZstd)
	}
}

func TestMalformedHeadersAreRefused(t *testing.T) {
	entry := func(fields string) string { return `{"w":{` + fields + `}}` }
	const shape, offsets = `"shape":[2],`, `"data_offsets":[0,8]`
	for name, c := range map[string]struct {
		header string
		data   int
		kind   error
		says   string
	}{
		"empty": {``, 0, ErrFormat, "header at byte 8: found the end of the " +
			"header, expected '{'"},
		"leading space": {` {}`, 0, ErrFormat, "header at byte 8: found ' ', " +
			"expected '{'"},
		"an array": {`[]`, 0, ErrFormat, "expected '{'"},
		"unclosed": {`{`, 0, ErrFormat, "found the end of the header, expected " +
			"a string"},
		"trailing comma": {`{"__metadata__":{},}`, 0, ErrFormat,
			"byte 27: found '}', expected a string"},
		"no colon": {`{"w" {}}`, 0, ErrFormat, "expected ':'"},
		"newline as padding": {"{}\n", 0, ErrFormat, "byte 10: found '\\n', expected " +
			"nothing but spaces"},
		"a second object": {`{}{}`, 0, ErrFormat, "nothing but spaces"},
		"not UTF-8": {"{\"\xff\":1}", 0, ErrFormat,
			`header at byte 10: found byte "\xff", expected UTF-8`},
		"broken surrogate":   {`{"\ud800x":{}}`, 0, ErrFormat, "two that pair"},
		"unpaired surrogate": {`{"\ud800\u0041":{}}`, 0, ErrFormat, "two that pair"},
		"lone low surrogate": {`{"\udc00":{}}`, 0, ErrFormat, "two that pair"},
		"cut escape":         {`{"\u12`, 0, ErrFormat, `found "\\u12"`},
		"unknown escape":     {`{"\x":{}}`, 0, ErrFormat, "an escape sequence of JSON"},
		"control character":  {"{\"a\nb\":{}}", 0, ErrFormat, "control characters escaped"},
		"tensor twice": {`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},` +
			`"w":{}}`, 0, ErrFormat, `byte 61: found key "w" again`},
		"tensor twice, in disguise": {`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},` +
			`"\u0077":{}}`, 0, ErrFormat, `key "w" again`},
		"metadata twice": {`{"__metadata__":{},"__metadata__":{}}`, 0, ErrFormat,
			"again"},
		"metadata key twice": {`{"__metadata__":{"a":"","a":""}}`, 0, ErrFormat, `key "a" again`},
		"metadata null": {`{"__metadata__":null}`, 0, ErrFormat,
			"found 'n', expected an object"},
		"metadata a number": {`{"__metadata__":{"layers":2}}`, 0, ErrFormat,
			`metadata "layers" at byte 34: found '2', expected a string`},
		"metadata nested": {`{"__metadata__":{"a":{}}}`, 0, ErrFormat, "expected a string"},
		"entry not an object": {`{"w":[]}`, 0, ErrFormat,
			`tensor "w" at byte 13: found '[', expected an object`},
		"unknown field": {entry(`"dtype":"F32","device":"cpu"`), 8, ErrFormat,
			`found field "device", expected dtype, shape or data_offsets`},
		"field twice": {entry(`"dtype":"F32","dtype":"F32"`), 8, ErrFormat,
			`key "dtype" again`},
		"no dtype": {entry(shape + offsets), 8, ErrFormat,
			`tensor "w", dtype at byte 9: found no such field`},
		"no shape": {entry(`"dtype":"F32",` + offsets), 8, ErrFormat,
			`tensor "w", shape at byte 9: found no such field`},
		"no offsets": {entry(`"dtype":"F32","shape":[2]`), 8, ErrFormat,
			`tensor "w", data_offsets at byte 9: found no such field`},
		"unknown dtype": {entry(`"dtype":"F8_E4M3",` + shape + offsets), 8, ErrFormat,
			`found "F8_E4M3", expected F64, F32,`},
		"dtype in lower case": {entry(`"dtype":"f32",` + shape + offsets), 8, ErrFormat,
			`found "f32"`},
		"dtype a number": {entry(`"dtype":32,` + shape + offsets), 8, ErrFormat,
			"found '3', expected a string"},
		"negative dimension": {entry(`"dtype":"F32","shape":[-2],` + offsets), 8, ErrFormat,
			"found '-', expected an integer >= 0"},
		"fraction": {entry(`"dtype":"F32","shape":[2.0],` + offsets), 8, ErrFormat,
			"found '.', expected ',' or ']'"},
		"exponent": {entry(`"dtype":"F32","shape":[2e0],` + offsets), 8, ErrFormat,
			"found 'e', expected ',' or ']'"},
		"leading zero": {entry(`"dtype":"F32","shape":[02],` + offsets), 8, ErrFormat,
			`found "02"`},
		"number beyond 2^63": {entry(`"dtype":"F32","shape":[9223372036854775808],` + offsets), 8,
			ErrFormat, "below 2^63"},
		"shape a number": {entry(`"dtype":"F32","shape":2,` + offsets), 8, ErrFormat,
			"expected an array"},
		"shape unclosed": {`{"w":{"shape":[1,`, 8, ErrFormat, "the end of the header"},
		"too many dimensions": {entry(`"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],` + offsets), 8,
			ErrFormat, "more than 8 numbers"},
		"elements overflow": {entry(`"dtype":"F32","shape":[4294967296,4294967296,4294967296],` +
			offsets), 8, ErrFormat, "can be counted"},
		"bytes overflow": {entry(`"dtype":"F32","shape":[4611686018427387904],` + offsets), 8,
			ErrFormat, "can be counted"},
		"one offset": {entry(`"dtype":"F32",` + shape + `"data_offsets":[8]`), 8, ErrFormat,
			"found 1 numbers, expected [begin, end]"},
		"three offsets": {entry(`"dtype":"F32",` + shape + `"data_offsets":[0,4,8]`), 8,
			ErrFormat, "[begin, end]"},
		"offsets reversed": {entry(`"dtype":"F32",` + shape + `"data_offsets":[8,0]`), 8, ErrFormat,
			"found [8,0], expected begin <= end"},
		"size not the shape's": {entry(`"dtype":"F32","shape":[3],` + offsets), 8, ErrFormat,
			`tensor "w", data_offsets at byte 9: found [0,8], expected 12 bytes for F32[3]`},
		"hole at the start": {entry(`"dtype":"F32",` + shape + `"data_offsets":[4,12]`), 12,
			ErrFormat, "expected begin 0: no hole"},
		"hole between": {`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8",` +
			`"shape":[2],"data_offsets":[3,5]}}`, 5,
			ErrFormat,
			`tensor "b", data_offsets at byte 61: found [3,5], expected begin 2: no hole`},
		"overlap": {`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8",` +
			`"shape":[2],"data_offsets":[1,3]}}`, 3,
			ErrFormat, "expected begin 2: no overlap"},
		"same data twice": {`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},` +
			`"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2,
			ErrFormat, "no overlap"},
		"beyond the end": {entry(`"dtype":"F32",` + shape + offsets), 7, ErrTruncated,
			"found 7 bytes, expected 8"},
		"data not covered": {entry(`"dtype":"F32",` + shape + offsets), 9, ErrFormat,
			"end of the data at byte 70: found more bytes"},
		"over the data limit": {entry(
			`"dtype":"U8","shape":[4294967297],"data_offsets":[0,4294967297]`), 0, ErrTooLarge,
			"at most 4294967296 bytes of data"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(framed(c.header, c.data)), Limits{})
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			require.True(t, located(err), "%v", err)
		})
	}
}

func TestWhatTheFormatAllowsIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		data   int
		names  []string
	}{
		"no tensors": {`{}`, 0, nil},
		"padding":    {`{}      `, 0, nil},
		"white space": {"{ \"w\" :\n{\"dtype\":\t\"U8\" , \"shape\" : [ 1 , 2 ] ,\r " +
			"\"data_offsets\": [ 0 , 2 ] } }", 2, []string{"w"}},
		"fields in another order": {`{"w":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"}}`, 2,
			[]string{"w"}},
		"metadata last": {`{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},` +
			`"__metadata__":{"a":"b"}}`, 2, []string{"w"}},
		"escapes": {`{"\u0077\n\"\/\\\b\f\r\t\ud834\udd1e\u00E9":{"dtype":"U8","shape":[2],` +
			`"data_offsets":[0,2]}}`, 2, []string{"w\n\"/\\\b\f\r\t𝄞é"}},
		"the replacement, written": {`{"\ufffd":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`,
			2, []string{"\ufffd"}},
		"scalar": {`{"w":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`, 8, []string{"w"}},
		"another order than the data's, with an empty tensor between": {
			`{"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},"none":{"dtype":"F32",` +
				`"shape":[7,0],"data_offsets":[2,2]},` +
				`"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 5,
			[]string{"a", "none", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(bytes.NewReader(framed(c.header, c.data)), Limits{})
			require.NoError(t, err)
			var names []string
			for _, w := range f.Tensors {
				names = append(names, w.Name)
			}
			require.Equal(t, c.names, names)
		})
	}
}

func TestLimitsHold(t *testing.T) {
	b := written(t, small())
	data := int64(0)
	for _, w := range small().Tensors {
		data += int64(len(w.Data))
	}
	header := int64(len(b)) - prefixBytes - data
	exact := Limits{HeaderBytes: header, DataBytes: data, Tensors: 4}
	_, err := Read(bytes.NewReader(b), exact)
	require.NoError(t, err)
	for _, l := range []Limits{{HeaderBytes: header - 1}, {DataBytes: data - 1}, {Tensors: 3}} {
		for _, b := range [][]byte{b, compressed(t, small())} {
			_, err := Read(bytes.NewReader(b), l)
			require.ErrorIs(t, err, ErrTooLarge, "%+v", l)
			require.True(t, located(err))
		}
	}
}

func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHeaderThatPromisesMuchCostsLittle(t *testing.T) {
	huge := framed(`{"w":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}`, 100)
	got := allocated(func() {
		_, err := Read(bytes.NewReader(huge), Limits{})
		require.ErrorIs(t, err, ErrTruncated)
	})
	require.Less(t, got, uint64(readStep+1<<20))
}

func TestZstdBombCostsLittle(t *testing.T) {
	const bomb = 128 << 20
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedFastest))
	require.NoError(t, err)
	_, err = w.Write(framed(`{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 0))
	require.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range bomb / len(zeros) {
		_, err = w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.Less(t, packed.Len(), 1<<20, "it is no bomb")

	got := allocated(func() {
		_, err := Read(&packed, Limits{})
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, "more bytes")
	})
	require.Less(t, got, uint64(32<<20), "of %d", bomb)
}

func TestZstdWindowOverLimitIsRefused(t *testing.T) {
	// The frame header requests a window of 2^(10+18) = 256 MiB.
	frame := append([]byte(zstdMagic), 0, 18<<3, 1, 0, 0)
	_, err := Read(bytes.NewReader(frame), Limits{})
	require.ErrorIs(t, err, ErrZstd)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "expected a window of at most 134217728 bytes")
}

func TestFailingReaderIsNotTakenForADamagedFile(t *testing.T) {
	disk := errors.New("disk on fire")
	for _, b := range [][]byte{written(t, small()), compressed(t, small())} {
		for n := range b {
			_, err := Read(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(disk)), Limits{})
			require.ErrorIs(t, err, disk, "after %d bytes", n)
			require.False(t, located(err), "%v", err)
		}
	}
}

func TestReadersMayReturnLittleAtATime(t *testing.T) {
	for _, b := range [][]byte{written(t, small()), compressed(t, small())} {
		for _, slow := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader,
			iotest.HalfReader} {
			f, err := Read(slow(bytes.NewReader(b)), Limits{})
			require.NoError(t, err)
			requireSame(t, small(), f)
		}
	}
}

func TestLargeTensorGrowsToItsSize(t *testing.T) {
	big := Tensor{Name: "big", DType: U8, Shape: []int{2*readStep + 5},
		Data: make([]byte, 2*readStep+5)}
	for i := 0; i < len(big.Data); i += 4093 {
		big.Data[i] = byte(i)
	}
	f := &File{Tensors: []Tensor{big, F32Tensor("after", []int{1}, []float32{4})}}
	got, err := Read(bytes.NewReader(written(t, f)), Limits{})
	require.NoError(t, err)
	requireSame(t, f, got)
}

func TestMissingFileIsTheSystemsError(t *testing.T) {
	_, err := ReadFile("testdata/none.safetensors")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLongNamesAreCutInErrors(t *testing.T) {
	name := strings.Repeat("n", 1<<20)
	_, err := Read(bytes.NewReader(framed(fmt.Sprintf(`{%q:1}`, name), 0)), Limits{})
	require.ErrorIs(t, err, ErrFormat)
	require.Less(t, len(err.Error()), 300)
}
