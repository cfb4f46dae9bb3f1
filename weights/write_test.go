package weights

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

func TestFileIsReadWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	for _, level := range []int{0, 1, 19} {
		path := filepath.Join(dir, "model.bin")
		require.NoError(t, WriteFile(path, small(), WriteOptions{Zstd: level}))
		f, err := ReadFile(path)
		require.NoError(t, err)
		requireSame(t, small(), f)
	}
	requireOnly(t, dir, "model.bin")
}

func TestWritingIsDeterministic(t *testing.T) {
	for range 20 { // several rounds, because the iteration order of maps varies
		require.Equal(t, written(t, small()), written(t, small()))
		require.Equal(t, compressed(t, small()), compressed(t, small()))
	}
}

func TestHeaderIsWrittenAsDocumented(t *testing.T) {
	f := &File{
		Metadata: map[string]string{"b": "line\n", "a": `"<é>"`},
		Tensors: []Tensor{i32Tensor("z", []int{1}, []int32{1}), F32Tensor("y", []int{1, 2},
			[]float32{0, 0})},
	}
	const header = `{"__metadata__":{"a":"\"<é>\"","b":"line\u000a"},` +
		`"z":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},` +
		`"y":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}} `
	require.Equal(t, append(framed(header, 0), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), written(t, f))
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *File)
		kind   error
		says   string
	}{
		"name twice": {func(f *File) { f.Tensors[1].Name = "w" }, ErrFormat,
			`tensor "w": found the same name again`},
		"reserved name": {func(f *File) { f.Tensors[0].Name = metadataKey }, ErrFormat,
			"expected another name"},
		"name not UTF-8": {func(f *File) { f.Tensors[0].Name = "\xff" }, ErrFormat, "not UTF-8"},
		"key not UTF-8":  {func(f *File) { f.Metadata["\xff"] = "" }, ErrFormat, "not UTF-8"},
		"value not UTF-8": {func(f *File) { f.Metadata["k"] = "\xff" }, ErrFormat,
			`metadata "k": found text that is not UTF-8`},
		"unknown dtype": {func(f *File) { f.Tensors[0].DType = "I16" }, ErrFormat,
			`tensor "w", dtype: found "I16"`},
		"negative shape": {func(f *File) { f.Tensors[0].Shape = []int{-1, -6} }, ErrFormat,
			`tensor "w", shape: found F32[-1,-6]`},
		"rank": {func(f *File) { f.Tensors[0].Shape = make([]int, 9) }, ErrFormat,
			"9 dimensions, expected at most 8"},
		"shape and data": {func(f *File) { f.Tensors[0].Shape = []int{7} }, ErrFormat,
			"found 24 bytes, expected 28 bytes for F32[7]"},
		"too many tensors": {func(f *File) { f.Tensors = make([]Tensor, MaxTensors+1) },
			ErrTooLarge, "found 65537 tensors"},
		"header too long": {func(f *File) {
			f.Metadata["k"] =
				string(make([]byte, MaxHeaderBytes/5))
		}, ErrTooLarge, "header: found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := small()
			c.change(f)
			var out bytes.Buffer
			err := Write(&out, f)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			require.Zero(t, out.Len(), "bytes written before the error")

			dir := t.TempDir()
			path := filepath.Join(dir, "m")
			require.ErrorContains(t, WriteFile(path, f, WriteOptions{}), path)
			requireOnly(t, dir)
		})
	}
}

func TestLevelIsValidated(t *testing.T) {
	for _, level := range []int{-1, 23} {
		require.ErrorContains(t, WriteFile(filepath.Join(t.TempDir(), "m"), small(),
			WriteOptions{Zstd: level}), "expected 0 (no compression) to 22")
	}
}

func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.Equal(t, names, found)
}

func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	require.NoError(t, WriteFile(path, small(), WriteOptions{}))
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	for room := range before {
		err := atomicfile.Write(path, atomicfile.Options{},
			func(w io.Writer) error { return Write(&fullDisk{w, room}, small()) })
		require.ErrorIs(t, err, syscall.ENOSPC, "room for %d bytes", room)
	}
	bad := small()
	bad.Tensors[3].Data = nil // makes the header fail
	require.ErrorIs(t, WriteFile(path, bad, WriteOptions{Zstd: 3}), ErrFormat)

	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	requireOnly(t, dir, "model.safetensors")
}

type fullDisk struct {
	w    io.Writer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n, err := d.w.Write(p[:min(len(p), d.room)])
	d.room -= n
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestFullDeviceIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /dev/full here")
	}
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, Write(full, small()), syscall.ENOSPC)
	require.ErrorIs(t, small().Stored().writeZstd(full, 3), syscall.ENOSPC)
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "none", "m"), small(), WriteOptions{}),
		fs.ErrNotExist)

	occupied := filepath.Join(dir, "m") // a folder at the path, so the rename fails
	require.NoError(t, os.Mkdir(occupied, 0o755))
	require.ErrorContains(t, WriteFile(occupied, small(), WriteOptions{}), occupied)
	requireOnly(t, dir, "m")
	requireOnly(t, occupied)

	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	locked := filepath.Join(dir, "locked")
	require.NoError(t, os.Mkdir(locked, 0o555))
	require.ErrorIs(t, WriteFile(filepath.Join(locked, "m"), small(), WriteOptions{}),
		fs.ErrPermission)
}

func TestRelativePathIsWrittenInTheCurrentFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, WriteFile("m", small(), WriteOptions{}))
	_, err := ReadFile("m")
	require.NoError(t, err)
}
