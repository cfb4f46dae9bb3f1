package session

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/weights"
)

// A fork at any offset equals a session that was fed the text up to this offset. This holds
// whatever snapshots exist. The original session is unchanged.
func TestForkIsSessionOfItsText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{
			ReplayMax:     rapid.SampledFrom([]time.Duration{1, time.Hour}).Draw(rt, "replay"),
			ForkSnapshots: rapid.IntRange(0, 4).Draw(rt, "fork snapshots"),
		})
		defer func() { sv.stop() }()
		mg := sv.mg
		if rapid.IntRange(0, 3).Draw(rt, "memory") == 0 {
			var err error
			mg, err = NewManager(testModel(t), Options{})
			require.NoError(rt, err)
			defer func() { require.NoError(rt, mg.Drain(background)) }()
		}
		r := drawRequest(rt)
		id, text := create(rt, mg, r), logText(rapid.IntRange(1, 150).Draw(rt, "bytes"))
		for _, piece := range cut(rt, text, 60) {
			score(rt, mg, id, piece)
			if rapid.Bool().Draw(rt, "snapshot") && mg.engine.store.Durable() {
				sv.keep(id)
			}
		}
		if rapid.Bool().Draw(rt, "costly") {
			withSession(rt, mg, id, func(s *session) { s.replayCost = time.Minute })
		}
		was := hash(rt, mg, id)
		at := rapid.Int64Range(0, int64(len(text))).Draw(rt, "at")
		f := ForkRequest{AtOffset: &at, Labels: map[string]string{"a": "fork"}, TTL: time.Hour,
			History: rapid.SampledFrom([]string{"", HistoryFull, HistoryTail}).Draw(rt, "history")}
		if at == int64(len(text)) && rapid.Bool().Draw(rt, "now") {
			f.AtOffset = nil
		}
		info, err := mg.Fork(background, Caller{Key: "k", Admin: true}, id, f)
		require.NoError(rt, err)
		require.Equal(rt, &Parent{id, at}, info.Parent)
		require.Equal(rt, f.Labels, info.Labels)
		require.Equal(rt, "k", info.Owner)
		who := Caller{Admin: true}
		want, _ := alone(rt, mg.engine.models[0].Model, r, text[:at])
		require.Equal(rt, want.Tally.Bits, info.Bits)
		require.Equal(rt, at, info.Offset)
		if mg.engine.store.Durable() && rapid.Bool().Draw(rt, "restart") {
			sv.restart()
			mg = sv.mg
		}
		_, err = mg.Score(background, who, info.ID, bytes.NewReader([]byte("and on")),
			ScoreOptions{Offset: &at}, noChunks)
		require.NoError(rt, err)
		want, _ = alone(rt, mg.engine.models[0].Model, r, text[:at]+"and on")
		s, err := mg.index.catalog.find(who, info.ID)
		require.NoError(rt, err)
		require.NoError(rt, s.open(background, 0))
		require.Equal(rt, want.Hash(), s.stream.Hash())
		s.unlock()
		require.Equal(rt, was, hash(rt, mg, id))
		require.Empty(rt, sv.told())
		for _, id := range []string{id, info.ID} {
			require.NoError(rt, mg.Delete(who, id))
		}
		require.Zero(rt, mg.index.budget.Used())
		require.Zero(rt, mg.index.registry.Places())
	})
}

func TestFailedForkLeavesNothing(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{History: HistoryTail})
	score(t, sv.mg, id, logText(5*testChunk+2))
	for at, want := range map[int64]string{-1: "-1, expected 81 to 82", 80: "80", 83: "83"} {
		_, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		var field *FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, "at_offset", field.Field)
		require.ErrorContains(t, err, want)
	}
	_, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{History: HistoryFull})
	require.ErrorContains(t, err, "history: found full, expected tail")
	_, err = sv.mg.Fork(background, Caller{Key: "other"}, id, ForkRequest{})
	require.ErrorIs(t, err, ErrNotFound)
	_, err = sv.mg.Fork(background, Caller{MaxSessions: 1}, id, ForkRequest{})
	require.ErrorAs(t, err, new(*QuotaError))
	info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: ptr(int64(81))})
	require.NoError(t, err)
	requireFed(t, sv.mg, info.ID, logText(81))
	stored, err := sv.store.List(background, "", 10)
	require.NoError(t, err)
	require.Len(t, stored, 2)
}

func export(t fatal, mg *Manager, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, mg.Export(background, Caller{}, id, 0, &b, nil))
	return b.Bytes()
}

func TestImportEqualsExportedSession(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt),
			Options{ReplayMax: time.Duration(rapid.SampledFrom([]int64{1,
				int64(time.Hour)}).Draw(rt, "replay"))})
		defer func() { sv.stop() }()
		memory, err := NewManager(testModel(t), Options{})
		require.NoError(rt, err)
		defer func() { require.NoError(rt, memory.Drain(background)) }()
		from, to := sv.mg, memory
		if rapid.Bool().Draw(rt, "out of memory") {
			from, to = memory, sv.mg
		}
		r := drawRequest(rt)
		r.Labels, r.TTL = map[string]string{"a": "b"}, time.Hour
		r.History = rapid.SampledFrom([]string{HistoryFull, HistoryTail}).Draw(rt, "history")
		text := logText(rapid.IntRange(0, 120).Draw(rt, "bytes"))
		id := create(rt, from, r)
		for _, piece := range cut(rt, text, 50) {
			score(rt, from, id, piece)
		}
		info, err := to.Import(background, Caller{}, bytes.NewReader(export(rt, from, id)), "")
		require.NoError(rt, err)
		was := get(rt, from, id)
		require.NotEqual(rt, was.ID, info.ID)
		was.ID, was.Created, was.LastUsed, was.MemoryBytes = info.ID, info.Created, info.LastUsed,
			info.MemoryBytes
		was.DiskBytes = info.DiskBytes
		require.Equal(rt, was, info)
		if to == sv.mg && rapid.Bool().Draw(rt, "restart") {
			sv.restart()
			to = sv.mg
		}
		score(rt, to, info.ID, "and on")
		want, _ := alone(rt, to.engine.models[0].Model, r, text+"and on")
		require.Equal(rt, want.Hash(), hash(rt, to, info.ID))
		require.Empty(rt, sv.told())
	})
}

type changeable struct {
	head    head
	start   int64
	records []storage.Record
	state   *weights.File
	end     int64
}

func takeApart(t testing.TB, mg *Manager, id string) *changeable {
	b := export(t.(fatal), mg, id)
	store, err := folder.OpenExport(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))))
	require.NoError(t, err)
	found, err := store.Get(background, id)
	require.NoError(t, err)
	require.NoError(t, found.Err)
	x := &changeable{start: found.Start, end: found.End}
	x.head, err = decodeHead(id, found.Head)
	require.NoError(t, err)
	require.NoError(t, store.Read(background, id, found.Start,
		func(_ int64, r storage.Record) error {
			r.Text = bytes.Clone(r.Text)
			x.records = append(x.records, r)
			return nil
		}))
	require.NoError(t, store.ReadSnapshot(background, id, found.End, func(r io.Reader) (err error) {
		x.state, err = weights.Read(r, weights.Limits{})
		return err
	}))
	return x
}

func (x *changeable) archive(t require.TestingT) *bytes.Reader {
	var b, state bytes.Buffer
	a := folder.NewExporter(&b, x.head.ID, x.head.Created)
	require.NoError(t, a.Head(x.start, x.head.encode()))
	at := x.start
	for _, r := range x.records {
		require.NoError(t, a.Append(at, r))
		at += int64(len(r.Text))
	}
	if x.state != nil {
		write := func(w io.Writer) error { return weights.Write(w, x.state) }
		require.NoError(t, storage.CompressSnapshot(background, &state, write))
		content := bytes.NewReader(state.Bytes())
		require.NoError(t, a.State(x.end, io.NewSectionReader(content, 0, content.Size())))
	}
	require.NoError(t, a.Close())
	return bytes.NewReader(b.Bytes())
}

func (x *changeable) last() *storage.Record { return &x.records[len(x.records)-1] }

func (x *changeable) tensor(t require.TestingT, name string) *weights.Tensor {
	found, ok := x.state.Tensor(name)
	require.True(t, ok, name)
	return found
}

func refused(
	t testing.TB, mg *Manager, id string, change func(x *changeable), says ...string,
) {
	t.Helper()
	x := takeApart(t, mg, id)
	change(x)
	_, err := mg.Import(background, Caller{}, x.archive(t), "")
	require.ErrorIs(t, err, ErrImport, "%v", says)
	for _, text := range says {
		require.ErrorContains(t, err, text)
	}
}

func TestIncompleteExportIsRefused(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	score(t, mg, id, logText(40))
	for want, change := range map[string]func(x *changeable){
		"the log ends at offset ": func(x *changeable) { x.records = x.records[:1] },
		"a text has 0 bytes, expected 1": func(x *changeable) {
			x.records = slices.Insert(x.records, 1, x.records[0])
			x.records[1].Text = nil
		},
		"the state has": func(x *changeable) {
			for i := range x.records {
				x.records[i].Bits = x.records[0].Bits
			}
		},
		"the record at offset 0 has baseline": func(x *changeable) {
			x.records[0].HasBaseline =
				false
		},
		"the record at offset 0 has a total of": func(x *changeable) { x.records[0].Baseline = -1 },
		"head: version is 2, expected 1":        func(x *changeable) { x.head.Version = 2 },
		"metadata lmserve.snapshot is mis": func(x *changeable) {
			delete(x.state.Metadata,
				"lmserve.snapshot")
		},
		"the file has no state for offset 40": func(x *changeable) { x.state = nil },
		"does not belong to a stream": func(x *changeable) {
			x.state.Tensors = append(x.state.Tensors, weights.Tensor{Name: "more",
				DType: weights.U8, Shape: []int{0}})
		},
	} {
		refused(t, mg, id, change, want)
	}
	whole := export(t, mg, id)
	isRefused := func(file []byte, what string, at int) error {
		_, err := mg.Import(background, Caller{}, bytes.NewReader(file), "")
		require.ErrorIs(t, err, ErrImport, what, at)
		return err
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/97) {
		isRefused(whole[:at], "the first %d bytes", at)
	}
	for _, file := range []string{memberName(id, "head"), memberName(id, "log."),
		memberName(id, "state.")} {
		at := bytes.Index(whole, []byte(file)) + 512 + 40
		require.GreaterOrEqual(t, at, 552, file)
		b := bytes.Clone(whole)
		b[at] ^= 1
		isRefused(b, file+" at byte %d", at)
	}
	old := isRefused([]byte("\x28\xb5\x2f\xfd and so on"), "%d", 0)
	require.ErrorContains(t, old, "before exports were tar files")
	other := newManagerOf(t, staticModel(t), Options{})
	_, err := other.Import(background, Caller{}, bytes.NewReader(whole), "")
	require.ErrorContains(t, err, "the session's model is")
	page, _, _ := mg.List(Caller{}, "", 0)
	require.Len(t, page, 1)
}

func memberName(id, name string) string { return "sessions/" + id + "/" + name }

// An export is a tar file of a data folder: a server can use the unpacked folder.
func TestExportIsDataFolder(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	dir := filepath.Join(t.TempDir(), "data")
	damage := func(err *storage.CorruptError) { t.Error(err) }
	require.NoError(t, folder.Restore(background, bytes.NewReader(export(t, mg, id)), dir, damage))
	sv := newServer(t, dir, Options{})
	defer func() { sv.stop() }()
	require.Equal(t, hash(t, mg, id), hash(t, sv.mg, id))
	score(t, mg, id, "and on")
	score(t, sv.mg, id, "and on")
	require.Equal(t, hash(t, mg, id), hash(t, sv.mg, id))
}

func FuzzImport(f *testing.F) {
	m, err := modeltest.Small()
	require.NoError(f, err)
	mg, err := NewManager(m, Options{})
	require.NoError(f, err)
	for _, baseline := range []bool{false, true} {
		info, err := mg.Create(background, Caller{},
			CreateRequest{Settings: Settings{"method": MethodStatic, "baseline": baseline}})
		require.NoError(f, err)
		for range 2 {
			_, err = mg.Score(context.Background(), Caller{}, info.ID, io.LimitReader(endless{},
				20), ScoreOptions{}, noChunks)
			require.NoError(f, err)
		}
		f.Add(export(f, mg, info.ID))
		_, err = feedLines(mg, info.ID, "\na\nb", unflagged)
		require.NoError(f, err)
		f.Add(export(f, mg, info.ID))
	}
	// ends the manager's threads, because fuzzing needs none
	require.NoError(f, mg.Drain(background))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
		a, err := readArchive(background, models{residentModel(m)}, file)
		if err != nil || a.check(background, m, a.store) != nil {
			return
		}
		store := storage.NewMemory()
		epoch, err := store.Create(background, "a", a.found.Head, a.found.Start)
		require.NoError(t, err)
		require.NoError(t, a.store.Read(background, a.found.ID, a.found.Start,
			func(at int64, r storage.Record) error {
				r.Text = bytes.Clone(r.Text)
				require.True(t, finite(r.Bits))
				return store.Append(background, "a", epoch, at, r)
			}), "what is accepted can be kept")
	})
}

func TestImportKeepsLimitOfText(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	var file bytes.Buffer
	require.NoError(t, mg.Export(background, Caller{}, id, 0, &file, nil))
	for most, want := range map[int64]error{99: ErrImport, 100: nil} {
		other := newManager(t, Options{MaxSessionBytes: most})
		_, err := other.Import(background, Caller{}, bytes.NewReader(file.Bytes()), "")
		require.ErrorIs(t, err, want)
		require.Equal(t, want == nil, other.Stats().Sessions == 1)
	}
}
