//go:build unix

package sessionlog

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder is moved away, and nothing, an empty folder, or a copy takes its place.
func TestFolderThatIsAwayLosesNothing(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, from, dir string){
		"nothing": func(*testing.T, string, string) {},
		"an empty folder": func(t *testing.T, _, dir string) {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, snapshotsFolder), 0o700))
		},
		"a copy": func(t *testing.T, from, dir string) {
			require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), filepath.Join(t.TempDir(), "data")
			f, err := Open(dir, Options{Serving: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			epoch, err := f.Create(ctx, "a", nil, 0)
			require.NoError(t, err)
			require.NoError(t, f.Append(ctx, "a", epoch, 0, Record{Text: []byte("one ")}))
			state := func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }
			require.NoError(t, f.WriteSnapshot(ctx, "a", epoch, 4, state))
			require.NoError(t, f.Append(ctx, "a", epoch, 4, Record{Text: []byte("two ")}))
			require.NoError(t, f.WriteSnapshot(ctx, "a", epoch, 8, state))
			require.NoError(t, f.Append(ctx, "a", epoch, 8, Record{Text: []byte("three ")}))

			require.NoError(t, os.Rename(dir, dir+".kept"))
			put(t, dir+".kept", dir)
			before := names(t, dir)
			for what, err := range map[string]error{
				"append": f.Append(ctx, "a", epoch, 14, Record{Text: []byte("four")}),
				"state":  f.WriteSnapshot(ctx, "a", epoch, 14, state),
				"trim":   f.Trim(ctx, "a", epoch, 8),
				"drop":   f.DropSnapshot(ctx, "a", epoch, 4),
				"delete": f.Delete(ctx, "a", epoch),
			} {
				require.ErrorIs(t, err, ErrUnavailable, what)
			}
			if name != "a copy" {
				_, err = readState(ctx, f, "a", 8)
				require.ErrorIs(t, err, ErrUnavailable)
			}
			require.Equal(t, before, names(t, dir), "nothing is written to what has the place")
			require.NoError(t, f.Err())

			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Rename(dir+".kept", dir))
			got, err := readState(ctx, f, "a", 8)
			require.NoError(t, err)
			require.Equal(t, "state", got)
			require.NoError(t, f.Append(ctx, "a", epoch, 14, Record{Text: []byte("four")}))
			require.NoError(t, f.Trim(ctx, "a", epoch, 8))
		})
	}
}

// names lists what is in a folder.
func names(t *testing.T, dir string) (all []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		all = append(all, path)
		return err
	}))
	return all
}

func readState(ctx context.Context, f *Folder, id string, at int64) (state string, err error) {
	err = f.ReadSnapshot(ctx, id, at, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		state = string(text)
		return err
	})
	return state, err
}
