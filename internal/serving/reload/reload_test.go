package reload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errBad = errors.New("bad")

func watched(t *testing.T, path string) (v *Value[string], reports *[]error) {
	reports = new([]error)
	v, err := New(func() (string, error) {
		text, err := os.ReadFile(path)
		if err == nil && string(text) == "bad" {
			err = errBad
		}
		return string(text), err
	}, func(err error) { *reports = append(*reports, err) }, path)
	require.NoError(t, err)
	return v, reports
}

func write(t *testing.T, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func requireValue(t *testing.T, v *Value[string], want string, bad bool) {
	t.Helper()
	got, err := v.Get()
	require.Equal(t, want, got)
	require.Equal(t, bad, err != nil, err)
}

func TestChangeIsSeenAfterOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		write(t, path, "one")
		v, reports := watched(t, path)
		before, err := os.Stat(path)
		require.NoError(t, err)
		// the change alters neither the length nor the modification time
		write(t, path, "two")
		require.NoError(t, os.Chtimes(path, time.Time{}, before.ModTime()))
		time.Sleep(checkEvery - 1)
		requireValue(t, v, "one", false)
		time.Sleep(time.Nanosecond)
		requireValue(t, v, "two", false)

		require.NoError(t, os.Rename(path, path+".old"))
		write(t, path+".new", "three")
		require.NoError(t, os.Rename(path+".new", path))
		time.Sleep(checkEvery)
		requireValue(t, v, "three", false)
		require.NotContains(t, *reports, errBad)
	})
}

func TestLastGoodValueStaysAndFaultIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		write(t, path, "good")
		v, reports := watched(t, path)
		for _, spoil := range []func(){
			func() { write(t, path, "bad") },
			func() { require.NoError(t, os.Remove(path)) },
			func() { require.NoError(t, os.Mkdir(path, 0o700)) },
		} {
			*reports = nil
			spoil()
			for range 150 {
				time.Sleep(time.Second)
				requireValue(t, v, "good", true)
			}
			require.Len(t, *reports, 3, "at once, after one minute, after two")
			for _, err := range *reports {
				require.Error(t, err)
			}
		}
		require.NoError(t, os.Remove(path))
		write(t, path, "good again")
		*reports = nil
		time.Sleep(time.Second)
		requireValue(t, v, "good again", false)
		require.Equal(t, []error{nil}, *reports)
	})
}

func TestOldFileIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		write(t, path, "x")
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
		reads := 0
		v, err := New(func() (int, error) { reads++; return reads, nil },
			func(error) { t.Error("nothing happened") }, path)
		require.NoError(t, err)
		for range 10 {
			time.Sleep(time.Second)
			n, err := v.Get()
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
	})
}

func TestNewFailsIfReadingFails(t *testing.T) {
	_, err := New(func() (int, error) { return 0, errBad }, nil, "none")
	require.ErrorIs(t, err, errBad)
}
