package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestSpoolHoldsWhatItReceived(t *testing.T) {
	text := strings.Repeat("0123456789", BufferBytes/4)
	s, err := Receive(iotest.HalfReader(strings.NewReader(text)))
	require.NoError(t, err)
	defer s.Close()
	n, err := s.Bytes()
	require.NoError(t, err)
	require.Equal(t, int64(len(text)), n)
	for range 2 {
		var b bytes.Buffer
		require.NoError(t, s.CopyTo(&b))
		require.Equal(t, text, b.String())
	}
	_, err = s.WriteAt([]byte("x"), 5)
	require.NoError(t, err)
	require.NoError(t, s.Fill(func(w io.Writer) error {
		_, err :=
			io.WriteString(w, "end")
		return err
	}))
	r, err := s.Reader()
	require.NoError(t, err)
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, text[:5]+"x"+text[6:]+"end", string(all))
}

func TestSpoolSeparatesReaderErrorsFromItsOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cut := errors.New("cut off")
	_, err := Receive(io.MultiReader(strings.NewReader("text"), iotest.ErrReader(cut)))
	require.ErrorIs(t, err, cut)
	require.ErrorAs(t, err, new(*ReadError))
	if runtime.GOOS == "windows" {
		return // Windows does not use the variable TMPDIR for the temporary folder
	}
	s, err := New()
	require.NoError(t, err)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "the file has no name")
	s.Close()
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, err = New()
	require.ErrorIs(t, err, ErrNoSpace)
}
