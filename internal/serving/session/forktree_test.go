package session

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func checkFolder(t fatal, sv *server) {
	t.Helper()
	sv.stop()
	require.NoError(t, datafolder.Check(background, sv.dir, func(d *storage.CorruptError) {
		require.Fail(t, d.Error())
	}))
	sv.start()
}

// Sessions, forks, and forks of forks are used and deleted in any order. Each of them always equals
// a session that was fed the same text.
func TestForksOfForksAreIndependent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{
			ReplayMax:     rapid.SampledFrom([]time.Duration{1, time.Hour}).Draw(rt, "replay"),
			ForkSnapshots: rapid.IntRange(0, 3).Draw(rt, "fork snapshots"),
		})
		defer func() { sv.stop() }()
		r := drawRequest(rt)
		texts := map[string]string{}
		one := func() string {
			if len(texts) == 0 {
				r.History = rapid.SampledFrom([]string{HistoryFull, HistoryTail}).Draw(rt,
					"history")
				texts[create(rt, sv.mg, r)] = ""
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(texts))).Draw(rt, "session")
		}
		for range 12 {
			id := one()
			switch rapid.SampledFrom([]string{
				"feed", "feed", "fork", "fork", "keep", "evict", "restart", "delete", "export",
			}).Draw(rt, "what") {
			case "feed":
				text := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "letter") + logText(30)
				score(rt, sv.mg, id, text)
				texts[id] += text
			case "fork":
				f := ForkRequest{History: rapid.SampledFrom([]string{"", HistoryTail}).Draw(rt,
					"kept")}
				at := int64(len(texts[id]))
				if rapid.Bool().Draw(rt, "within") {
					at = rapid.Int64Range(0, at).Draw(rt, "at")
					f.AtOffset = &at
				}
				info, err := sv.mg.Fork(background, Caller{}, id, f)
				if trimmed := new(TrimmedError); err != nil {
					require.ErrorAs(rt, err, &trimmed)
					continue
				}
				texts[info.ID] = texts[id][:at]
			case "keep":
				sv.keep(id)
			case "evict":
				sv.evict(id)
			case "restart":
				checkFolder(rt, sv)
			case "delete":
				require.NoError(rt, sv.mg.Delete(Caller{}, id))
				delete(texts, id)
			case "export":
				file := export(rt, sv.mg, id)
				info, err := sv.mg.Import(background, Caller{}, bytes.NewReader(file), "")
				require.NoError(rt, err)
				texts[info.ID] = texts[id]
			}
		}
		checkFolder(rt, sv)
		for id, text := range texts {
			want, _ := alone(rt, sv.mg.engine.models[0].Model, r, text)
			require.Equal(rt, want.Hash(), hash(rt, sv.mg, id))
			require.NoError(rt, sv.mg.Delete(Caller{}, id))
		}
		checkFolder(rt, sv)
		left, err := os.ReadDir(filepath.Join(sv.dir, "sessions"))
		require.NoError(rt, err)
		require.Empty(rt, left)
		require.Empty(rt, sv.told())
	})
}

func TestForkTakesNoDiskForWhatItShares(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id, text := create(t, sv.mg, CreateRequest{Settings: Settings{"method": MethodStatic}}),
		logText(32<<10)
	score(t, sv.mg, id, text)
	sv.keep(id)
	size := func() (bytes int64) {
		return sv.store.Usage().Sessions
	}
	before := size()
	forks := make([]string, 30)
	for n := range forks {
		info, err := sv.mg.Fork(background, Caller{}, id,
			ForkRequest{Labels: map[string]string{"n": fmt.Sprint(n)}})
		require.NoError(t, err)
		forks[n] = info.ID
	}
	require.Less(t, size()-before, int64(len(text)*len(forks)/2))
	require.NoError(t, sv.mg.Delete(Caller{}, id))
	require.NoError(t, sv.mg.Delete(Caller{}, forks[7]))
	checkFolder(t, sv)
	require.Equal(t, text, logged(t, sv.mg, forks[29]))
	want, _ := alone(t, sv.mg.engine.models[0].Model,
		CreateRequest{Settings: Settings{"method": MethodStatic}}, text)
	require.Equal(t, want.Hash(), hash(t, sv.mg, forks[0]))
}
