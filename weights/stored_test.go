package weights

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

type storage struct{ bytes.Buffer }

func (s *storage) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(s.Bytes()).ReadAt(p, at)
}

func TestStoredFileEqualsFileInMemory(t *testing.T) {
	f := small()
	var plain bytes.Buffer
	require.NoError(t, Write(&plain, f))
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	require.NoError(t, Write(z, f))
	require.NoError(t, z.Close())
	for _, text := range [][]byte{plain.Bytes(), packed.Bytes()} {
		var data storage
		var kept *Stored
		require.NoError(t, Scan(iotest.OneByteReader(bytes.NewReader(text)), Limits{},
			func(in *Stored) (err error) {
				kept, err = in.Keep(&data, &data)
				return err
			}))
		hash, err := kept.Hash()
		require.NoError(t, err)
		require.Equal(t, f.Hash(), hash)
		var again bytes.Buffer
		require.NoError(t, kept.Write(&again))
		require.Equal(t, plain.Bytes(), again.Bytes())
		loaded, err := kept.Load()
		require.NoError(t, err)
		read, err := Read(bytes.NewReader(text), Limits{})
		require.NoError(t, err)
		require.Equal(t, read, loaded)
	}
}

// Scan must return the errors of Read for a file truncated at any byte.
func TestScanRefusesWhatReadRefuses(t *testing.T) {
	var plain bytes.Buffer
	require.NoError(t, Write(&plain, small()))
	whole := plain.Bytes()
	nothing := func(*Stored) error { return nil }
	for n := range len(whole) + 2 {
		text := append(bytes.Clone(whole), 'x')[:min(n, len(whole)+1)]
		_, want := Read(bytes.NewReader(text), Limits{})
		if n == len(whole) {
			require.NoError(t, want)
			require.NoError(t, Scan(bytes.NewReader(text), Limits{}, nothing))
			continue
		}
		require.Error(t, want)
		var e, f *Error
		require.ErrorAs(t, want, &e)
		require.ErrorAs(t, Scan(bytes.NewReader(text), Limits{}, nothing), &f, "%d bytes", n)
		require.Equal(t, e.Kind, f.Kind)
		var data storage
		err := Scan(bytes.NewReader(text), Limits{}, func(in *Stored) error {
			_,
				err := in.Keep(&data, &data)
			return err
		})
		require.ErrorAs(t, err, &f)
		require.Equal(t, e, f, "%d bytes", n)
	}
	enough := errors.New("enough")
	require.ErrorIs(t, Scan(bytes.NewReader(whole), Limits{},
		func(*Stored) error { return enough }), enough)
	require.NoError(t, Scan(bytes.NewReader(whole), Limits{}, func(in *Stored) error {
		last := in.Tensors[len(in.Tensors)-1]
		_, err := io.ReadAll(last.Reader())
		require.NoError(t, err)
		_, err = io.ReadAll(in.Tensors[0].Reader())
		require.ErrorContains(t, err, "out of order")
		return nil
	}))
}

func TestLargeWindowIsRefused(t *testing.T) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(4<<20), zstd.WithSingleSegment(false))
	require.NoError(t, err)
	_, err = z.Write(make([]byte, 8<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	err = Scan(&packed, Limits{Window: 1 << 20}, func(*Stored) error { return nil })
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "1048576")
}
