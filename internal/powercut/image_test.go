package powercut

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func contentOf(t *testing.T, dir string) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		content, err := os.ReadFile(path)
		found[filepath.ToSlash(name)] = string(content)
		return err
	}))
	return found
}

func left(t *testing.T, events []Event, s Survivor) map[string]string {
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, After(events).Restore(dir, s))
	return contentOf(t, dir)
}

func TestOnlyWhatIsSyncedIsSure(t *testing.T) {
	events := []Event{
		{Kind: Name, Node: 1, Name: "a"},
		{Kind: Write, Node: 1, Data: []byte("one")},
		{Kind: Sync, Node: 1, Covers: 2},
		{Kind: Write, Node: 1, Data: []byte("two")},
	}
	require.Empty(t, left(t, events, OnlySynced), "the name is not")
	require.Equal(t, map[string]string{"a": "two"}, left(t, events, Everything))
	events = append(events, Event{Kind: SyncDir, Name: ".", Covers: 4})
	require.Equal(t, map[string]string{"a": "one"}, left(t, events, OnlySynced))
	require.Equal(t, map[string]string{"a": "two"}, left(t, events, Everything))
	late := Event{Kind: Sync, Node: 1, Covers: 3} // the sync began before the second write
	require.Equal(t, map[string]string{"a": "one"}, left(t, append(events, late), OnlySynced))
}

func TestWriteIsTornAtSectors(t *testing.T) {
	data := make([]byte, 3*sectorBytes)
	for i := range data {
		data[i] = 'x'
	}
	events := []Event{
		{Kind: Name, Node: 1, Name: "a"},
		{Kind: SyncDir, Name: ".", Covers: 1},
		{Kind: Write, Node: 1, Offset: sectorBytes / 2, Data: data},
	}
	n := 0
	second := Survivor{Name: never, Write: func() bool { n++; return n == 2 }}
	want := append(make([]byte, sectorBytes), data[:sectorBytes]...)
	require.Equal(t, string(want), left(t, events, second)["a"])
	require.Equal(t, 4, n, "the first and the last one in part")
}

func TestLostFolderTakesItsFiles(t *testing.T) {
	events := []Event{
		{Kind: Name, Node: Folder, Name: "d"},
		{Kind: Name, Node: 1, Name: "d/a"},
		{Kind: SyncDir, Name: "d", Covers: 2},
	}
	require.Empty(t, left(t, events, OnlySynced))
	require.Contains(t, left(t, events, Everything), "d/a")
}

func TestRenamedFolderBringsItsFiles(t *testing.T) {
	events := []Event{
		{Kind: Name, Node: Folder, Name: "d"},
		{Kind: SyncDir, Name: ".", Covers: 1},
		{Kind: Name, Node: 1, Name: "d/a"},
		{Kind: SyncDir, Name: "d", Covers: 3},
		{Kind: Name, Node: 2, Name: "d/b"},
		{Kind: Name, Node: Folder, Name: "e", From: "d"},
		{Kind: Unname, Name: "d"},
	}
	require.Equal(t, map[string]string{"d/a": ""}, left(t, events, OnlySynced))
	require.Equal(t, map[string]string{"e/a": "", "e/b": ""}, left(t, events, Everything))
	events = append(events, Event{Kind: SyncDir, Name: ".", Covers: 7})
	require.Equal(t, map[string]string{"e/a": ""}, left(t, events, OnlySynced))
	again := append(events, Event{Kind: Name, Node: Folder, Name: "d"})
	require.Equal(t, map[string]string{"e/a": "", "e/b": ""}, left(t, again, Everything))
}

func TestLinksStayLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	events := []Event{{Kind: Name, Node: 1, Name: "a"}, {Kind: Name, Node: 1, Name: "b"}}
	require.NoError(t, After(events).Restore(dir, Everything))
	a, err := os.Stat(filepath.Join(dir, "a"))
	require.NoError(t, err)
	b, err := os.Stat(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.True(t, os.SameFile(a, b))
}

func TestRenamedFileMayHaveEitherNameOrBothOrNone(t *testing.T) {
	events := []Event{
		{Kind: Name, Node: 1, Name: "a"},
		{Kind: SyncDir, Name: ".", Covers: 1},
		{Kind: Name, Node: 1, Name: "b"},
		{Kind: Unname, Name: "a"},
	}
	found := map[int]bool{}
	for way := range 4 {
		n := -1
		s := Survivor{Write: never, Name: func() bool { n++; return way&(1<<n) != 0 }}
		names := left(t, events, s)
		_, a := names["a"]
		_, b := names["b"]
		require.Equal(t, way&2 == 0, a)
		require.Equal(t, way&1 != 0, b)
		found[len(names)] = true
	}
	require.Len(t, found, 3)
}
