package session

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/weights"
)

func TestMisfitImportOfLinesIsRefused(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodDynamicSGD}})
	score(t, mg, id, "abc")
	_, err := feedLines(mg, id, strangeText()+"under way", unflagged)
	require.NoError(t, err)
	inHead := func(change func(h *head)) func(x *changeable) {
		return func(x *changeable) { change(&x.head) }
	}
	drop := func(name string) func(x *changeable) {
		return func(x *changeable) {
			x.state.Tensors = slices.DeleteFunc(x.state.Tensors,
				func(of weights.Tensor) bool { return of.Name == name })
		}
	}
	skip := func(lines ...uint16) func(x *changeable) {
		return func(x *changeable) {
			n := slices.IndexFunc(x.records,
				func(r storage.Record) bool { return len(r.Skipped) > 0 })
			x.records[n].Skipped = lines
		}
	}
	for _, c := range []struct {
		says  string
		spoil func(x *changeable)
	}{
		{"numbers below the number of lines, in ascending order", skip(65535)},
		{"numbers below the number of lines, in ascending order", skip(1, 0)},
		{"is learned by lines, but by_line is not true in the head",
			inHead(func(h *head) { h.ByLine = false })},
		{"by_line is true, expected false without lines_from",
			inHead(func(h *head) { h.LinesFrom = nil })},
		{"line ratings from offset 3 on, expected 2",
			inHead(func(h *head) { h.LinesFrom = ptr(int64(2)) })},
		{"line ratings from offset 3 on, expected 4",
			inHead(func(h *head) { h.LinesFrom = ptr(int64(4)) })},
		{"line ratings from offset 3 on, expected 9000",
			inHead(func(h *head) { h.LinesFrom = ptr(int64(9000)) })},
		{"by_line is true, expected false with the method cache",
			inHead(func(h *head) { h.Settings.Method = MethodCache })},
		{"has no line ratings, expected ratings from offset 3 on", drop("lines")},
		{`"held.gradient"`, drop("held.gradient")},
		{`tensor "held.marks" is missing`, drop("held.marks")},
		{`tensor "held.gradient", element 0 is NaN`, func(x *changeable) {
			copy(x.tensor(t, "held.gradient").Data, []byte{0, 0, 0xc0, 0x7f})
		}},
	} {
		refused(t, mg, id, c.spoil, c.says)
	}
	page, _, err := mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// The export of a damaged session contains the readable text, and records which lines were learned.
// The imported session can be continued.
func TestTouchedSessionOfLinesIsExportedAsFarAsItGoes(t *testing.T) {
	text := strangeText()
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	r := CreateRequest{}
	id, bad := create(t, sv.mg, r), len(text)/2/testChunk*testChunk
	for _, part := range []string{text[:bad/2], text[bad/2:]} {
		_, err := feedLines(sv.mg, id, part, unflagged)
		require.NoError(t, err)
		sv.keep(id) // The first snapshot is before the damage, so the export can use it.
	}
	sv.stop()
	inLog(t, sv.dir, text[bad:bad+testChunk], flip)
	sv.start()
	file, p := exportedPart(t, sv, id)
	require.EqualValues(t, bad, p.End)
	sv.told()
	mg := newManager(t, Options{})
	info, err := mg.Import(background, Caller{}, bytes.NewReader(file), "")
	require.NoError(t, err)
	require.Equal(t, undisturbed(t, r, text[:bad]), hash(t, mg, info.ID))
	_, err = feedLines(mg, info.ID, text[bad:], unflagged)
	require.NoError(t, err)
	require.Equal(t, undisturbed(t, r, text), hash(t, mg, info.ID))
}

// A rescue loses the text in which the session's lines begin. The rescued session can be fed like a
// session that never had lines.
func TestRescuedSessionForgetsLostLines(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	text := pieces(4)
	id := inPieces(t, sv, CreateRequest{}, text, func(int) {})
	_, err := feedLines(sv.mg, id, "a line\n", ScoreOptions{Lines: true})
	require.NoError(t, err)
	sv.stop()
	for _, file := range stateFiles(t, sv.dir) {
		require.NoError(t, os.Remove(file))
	}
	end := 2 * pieceBytes
	inLog(t, sv.dir, text[end:end+pieceBytes], flip)
	out := filepath.Join(t.TempDir(), "rescued")
	require.NoError(t, folder.Rescue(background, sv.dir, out, CutHead, func(r folder.Rescued) {
		require.EqualValues(t, end, r.End)
	}))
	rescued := newServer(t, out, Options{})
	defer func() { rescued.stop() }()
	found, err := rescued.store.Get(background, id)
	require.NoError(t, err)
	require.NoError(t, Verify(background, testModel(t), rescued.store, found, func(err error) {
		t.Error(err)
	}))
	mg := newManager(t, Options{})
	twin := create(t, mg, CreateRequest{})
	score(t, mg, twin, text[:end])
	for on, id := range map[*Manager]string{rescued.mg: id, mg: twin} {
		_, err := feedLines(on, id, strangeText(), unflagged)
		require.NoError(t, err)
	}
	require.Equal(t, hash(t, mg, twin), hash(t, rescued.mg, id))
}

func TestCheckFindsLinesThatHeadDoesNotKnow(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	_, err := feedLines(sv.mg, id, whole(0, 3), unflagged)
	require.NoError(t, err)
	sv.keep(id)
	findings := func(change func(h *head)) (all string) {
		found, err := sv.store.Get(background, id)
		require.NoError(t, err)
		h, err := decodeHead(id, found.Head)
		require.NoError(t, err)
		change(&h)
		found.Head = h.encode()
		require.NoError(t, Verify(background, testModel(t), sv.store, found, func(err error) {
			all += err.Error() + "\n"
		}))
		return all
	}
	require.Empty(t, findings(func(*head) {}))
	none := findings(func(h *head) { h.LinesFrom, h.ByLine = nil, false })
	require.Contains(t, none, "record at offset 0 is learned by lines")
	require.Contains(t, none, "the state has line ratings, expected none")
	require.Contains(t, findings(func(h *head) { h.ByLine = false }),
		"but by_line is not true in the head")
	later := findings(func(h *head) { h.LinesFrom = ptr(int64(1000)) })
	require.Contains(t, later, "lines_from is 1000, expected at most")
}
