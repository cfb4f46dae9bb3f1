package session

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/weights"
)

func TestAnImportOfLinesThatDoesNotFitIsRefused(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodDynamicSGD}})
	score(t, mg, id, "abc")
	_, err := feedLines(mg, id, strangeText()+"under way", unflagged)
	require.NoError(t, err)
	number := func(name string, element int, value int64) func(f *weights.File) {
		return func(f *weights.File) {
			x, ok := f.Tensor(name)
			require.True(t, ok, name)
			binary.LittleEndian.PutUint64(x.Data[8*element:], uint64(value))
		}
	}
	inHead := func(change func(h *head)) func(f *weights.File) {
		return func(f *weights.File) {
			h, err := exportedHead(f.Metadata[keyHead])
			require.NoError(t, err)
			change(&h)
			f.Metadata[keyHead] = string(h.encode())
		}
	}
	drop := func(name string) func(f *weights.File) {
		return func(f *weights.File) {
			var kept []weights.Tensor
			for _, x := range f.Tensors {
				if x.Name != name {
					kept = append(kept, x)
				}
			}
			f.Tensors = kept
		}
	}
	for _, c := range []struct {
		says  string
		spoil func(f *weights.File)
	}{
		{`tensor "log.learning" has an element -2, expected -1 to`, number(columnLearning, 1, -2)},
		{`tensor "log.learning" has an element 65537`, number(columnLearning, 1, 65537)},
		{`tensor "log.skipped" has an element 65536`, number(columnSkipped, 0, 65536)},
		{"lines of its text in ascending order", number(columnSkipped, 0, 65535)},
		{`tensor "log.learning" is missing`, drop(columnLearning)},
		{`tensor "log.skipped" is missing`, drop(columnSkipped)},
		{`tensor "log.learning" is there, expected none`, inHead(func(h *head) { h.ByLine = false })},
		{`tensor "log.unknown" is there, expected none of a model of bytes`, func(f *weights.File) {
			f.Tensors = append(f.Tensors, weights.Tensor{
				Name: columnUnknown, DType: weights.F64, Shape: []int{0},
			})
		}},
		{"by_line is true, expected false without lines_from",
			inHead(func(h *head) { h.LinesFrom = nil })},
		{"lines from offset 3 on, expected 2", inHead(func(h *head) { h.LinesFrom = ptr(int64(2)) })},
		{"lines from offset 3 on, expected 4", inHead(func(h *head) { h.LinesFrom = ptr(int64(4)) })},
		{"lines from offset 3 on, expected 9000",
			inHead(func(h *head) { h.LinesFrom = ptr(int64(9000)) })},
		{"by_line is true, expected false with the method cache",
			inHead(func(h *head) { h.Settings.Method = MethodCache })},
		{"has no lines, expected those from offset 3 on", drop("lines")},
		{`"held.gradient"`, drop("held.gradient")},
		{`tensor "held.marks" is missing`, drop("held.marks")},
		{`tensor "held.gradient", element 0 is NaN`, func(f *weights.File) {
			x, ok := f.Tensor("held.gradient")
			require.True(t, ok)
			copy(x.Data, []byte{0, 0, 0xc0, 0x7f})
		}},
	} {
		f := exportedFile(t, mg, id)
		c.spoil(f)
		sealed(t, f)
		var b bytes.Buffer
		require.NoError(t, weights.Write(&b, f))
		_, err := mg.Import(background, Caller{}, &b, "")
		require.ErrorIs(t, err, ErrImport, c.says)
		require.ErrorContains(t, err, c.says)
	}
	page, _, err := mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// Of a session of lines that damage has touched, what can be read is exported with what was learnt
// of it, and goes on.
func TestATouchedSessionOfLinesIsExportedAsFarAsItGoes(t *testing.T) {
	text := strangeText()
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	r := CreateRequest{}
	id, bad := create(t, sv.mg, r), len(text)/2/testChunk*testChunk
	for _, part := range []string{text[:bad/2], text[bad/2:]} {
		_, err := feedLines(sv.mg, id, part, unflagged)
		require.NoError(t, err)
		sv.keep(id) // the second snapshot is of no use
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

// What a check of the folder finds of lines that are not as the head says.
func TestACheckFindsLinesThatTheHeadDoesNotKnow(t *testing.T) {
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
	require.Contains(t, none, "record at offset 0: is learnt by lines")
	require.Contains(t, none, "the state has lines, expected none")
	require.Contains(t, findings(func(h *head) { h.ByLine = false }), "by_line is true")
	later := findings(func(h *head) { h.LinesFrom = ptr(int64(1000)) })
	require.Contains(t, later, "lines_from is 1000, expected at most")
}
