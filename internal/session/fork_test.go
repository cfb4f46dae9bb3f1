package session

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/weights"
)

// A fork at any offset is the session that was fed the text up to there, whatever snapshots there are, and its origin does not notice.
func TestAForkIsTheSessionOfItsText(t *testing.T) {
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
		_, err = mg.Score(background, who, info.ID, bytes.NewReader([]byte("and on")), ScoreOptions{Offset: &at}, func(Chunk) error { return nil })
		require.NoError(rt, err)
		want, _ = alone(rt, mg.engine.models[0].Model, r, text[:at]+"and on")
		s, err := mg.index.find(who, info.ID)
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

func TestAForkThatCannotBeMadeLeavesNothing(t *testing.T) {
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
	want, _ := alone(t, sv.mg.engine.models[0].Model, CreateRequest{Seed: ptr(uint64(3))}, logText(81))
	require.Equal(t, want.Hash(), hash(t, sv.mg, info.ID))
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

func TestAnImportIsTheSessionThatWasExported(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{ReplayMax: time.Duration(rapid.SampledFrom([]int64{1, int64(time.Hour)}).Draw(rt, "replay"))})
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
		was.ID, was.Created, was.LastUsed, was.MemoryBytes = info.ID, info.Created, info.LastUsed, info.MemoryBytes
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

// sealed puts a file that was changed under its seal again.
func sealed(t require.TestingT, f *weights.File) { require.NoError(t, seal(f.Stored())) }

// exportedFile is an export that can be changed.
func exportedFile(t testing.TB, mg *Manager, id string) *weights.File {
	f, err := weights.Read(bytes.NewReader(export(t.(fatal), mg, id)), weights.Limits{})
	require.NoError(t, err)
	delete(f.Metadata, keyExport)
	return f
}

func TestAnExportThatIsNotWholeIsRefused(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	score(t, mg, id, logText(40))
	tensor := func(f *weights.File, name string) *weights.Tensor {
		x, ok := f.Tensor(name)
		require.True(t, ok)
		return x
	}
	for want, change := range map[string]func(f *weights.File){
		`tensor "log.text" is missing`: func(f *weights.File) {
			f.Tensors = slices.DeleteFunc(f.Tensors, func(x weights.Tensor) bool { return x.Name == columnText })
		},
		`tensor "log.bits" has`:        func(f *weights.File) { x := tensor(f, columnBits); x.Shape, x.Data = []int{1}, x.Data[:8] },
		`tensor "log.ends", element 0`: func(f *weights.File) { tensor(f, columnEnds).Data[0] = 0 },
		"the state has": func(f *weights.File) {
			x := tensor(f, columnBits)
			copy(x.Data[16:], x.Data[:8])
			copy(x.Data[8:16], x.Data[:8])
		},
		"record 0 has totals":              func(f *weights.File) { tensor(f, columnBaseline).Data[7] = 0xff },
		"metadata lmserve.session: ":       func(f *weights.File) { f.Metadata[keyHead] += " " },
		"metadata lmserve.snapshot is mis": func(f *weights.File) { delete(f.Metadata, "lmserve.snapshot") },
		"is none of a stream": func(f *weights.File) {
			f.Tensors = append(f.Tensors, weights.Tensor{Name: "more", DType: weights.U8, Shape: []int{0}})
		},
	} {
		f := exportedFile(t, mg, id)
		change(f)
		sealed(t, f)
		var b bytes.Buffer
		require.NoError(t, weights.Write(&b, f))
		_, err := mg.Import(background, Caller{}, &b, "")
		require.ErrorIs(t, err, ErrImport)
		require.ErrorContains(t, err, want)
	}
	whole := export(t, mg, id)
	refused := func(file []byte, what string, at int) {
		_, err := mg.Import(background, Caller{}, bytes.NewReader(file), "")
		require.ErrorIs(t, err, ErrImport, what, at)
	}
	flipped := func(file []byte, at int) []byte {
		b := bytes.Clone(file)
		b[at] ^= 1
		return b
	}
	z, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer z.Close()
	content, err := z.DecodeAll(whole, nil)
	require.NoError(t, err)
	for _, at := range []int{0, 5, len(content) / 2, len(content) - 1} {
		refused(flipped(content, at), "byte %d of the content", at)
	}
	// Only the magic number and the checksum are certain to matter in the compressed file: between
	// them are bits that decode to the same whatever they are.
	for _, at := range []int{0, len(whole) - 1} {
		refused(flipped(whole, at), "byte %d", at)
	}
	for _, at := range []int{0, 5, len(whole) / 2, len(whole) - 1} {
		refused(whole[:at], "the first %d bytes", at)
	}
	f := exportedFile(t, mg, id)
	sealed(t, f)
	tensor(f, columnText).Data[0] ^= 1
	var b bytes.Buffer
	require.NoError(t, weights.Write(&b, f))
	_, err = mg.Import(background, Caller{}, &b, "")
	require.ErrorContains(t, err, "the content's hash is")
	other := newManagerOf(t, staticModel(t), Options{})
	_, err = other.Import(background, Caller{}, bytes.NewReader(whole), "")
	require.ErrorContains(t, err, "its model is")
	page, _, _ := mg.List(Caller{}, "", 0)
	require.Len(t, page, 1)
}

// FuzzImport changes what is under the seal.
func FuzzImport(f *testing.F) {
	m, err := modeltest.Small()
	require.NoError(f, err)
	mg, err := NewManager(m, Options{})
	require.NoError(f, err)
	for _, baseline := range []bool{false, true} {
		info, err := mg.Create(background, Caller{}, CreateRequest{Settings: Settings{"method": MethodStatic, "baseline": baseline}})
		require.NoError(f, err)
		for range 2 {
			_, err = mg.Score(context.Background(), Caller{}, info.ID, io.LimitReader(endless{}, 20), ScoreOptions{}, func(Chunk) error { return nil })
			require.NoError(f, err)
		}
		var b bytes.Buffer
		require.NoError(f, weights.Write(&b, exportedFile(f, mg, info.ID)))
		f.Add(b.Bytes())
		_, err = feedLines(mg, info.ID, "\na\nb", unflagged)
		require.NoError(f, err)
		b.Reset()
		require.NoError(f, weights.Write(&b, exportedFile(f, mg, info.ID)))
		f.Add(b.Bytes())
	}
	require.NoError(f, mg.Drain(background)) // parse needs no threads
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := weights.Read(bytes.NewReader(b), weights.Limits{})
		if err != nil || file.Metadata == nil || seal(file.Stored()) != nil {
			return
		}
		p, err := parseExport(models{residentModel(m)}, file.Stored())
		if err != nil || p.check(m) != nil {
			return
		}
		store := sessionlog.NewMemory()
		epoch, err := store.Create(background, "a", p.head.encode(), p.log.start)
		require.NoError(t, err)
		last := 0.
		require.NoError(t, p.log.each(func(_, at int64, r sessionlog.Record) error {
			r.Text, last = bytes.Clone(r.Text), r.Bits
			return store.Append(background, "a", epoch, at, r)
		}), "what is accepted can be kept")
		require.False(t, math.IsNaN(last))
	})
}
