package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/sparsemeta"
)

func TestFullDiskFailsOnlyTheCall(t *testing.T) {
	space := int64(testChunk)
	mg := newManager(t, Options{Store: &appending{
		storage.NewMemory(), func(_ string, at int64) error {
			if at >= space {
				return fmt.Errorf("some file: %w", storage.ErrNoSpace)
			}
			return nil
		},
	}})
	id := create(t, mg, CreateRequest{})
	sum, err := mg.Score(background, Caller{}, id, strings.NewReader(logText(3*testChunk)),
		ScoreOptions{}, noChunks)
	require.ErrorIs(t, err, ErrNoSpace)
	require.Equal(t, int64(testChunk), sum.Offset)
	space = 1 << 20
	score(t, mg, id, logText(3 * testChunk)[testChunk:])
	requireFed(t, mg, id, logText(3*testChunk), "the failed call leaves no trace")
}

func TestDamageSaysWhereItIs(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{History: HistoryTail})
	score(t, sv.mg, id, logText(4*testChunk+3))
	sv.stop()
	files := sv.spoilSnapshots()
	require.Len(t, files, 2)
	sv.start()
	for name, use := range map[string]func() error{
		"score": func() error {
			_, err := sv.mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{},
				nil)
			return err
		},
		"export": func() error {
			return sv.mg.Export(background, Caller{}, id, 0, io.Discard,
				nil)
		},
		"complete": func() error {
			_, err := sv.mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 1}, nil)
			return err
		},
	} {
		var bad *UnusableError
		require.ErrorAs(t, use(), &bad, name)
		require.Equal(t, id, bad.ID)
		require.Equal(t, "sessions/"+id+"/"+filepath.Base(files[1]), bad.Damage().File)
		require.Contains(t, files[1], fmt.Sprintf("%016x", bad.Damage().Offset), "the newest")
		require.Equal(t, 1, strings.Count(bad.Error(), "10 bytes, expected"))
	}
	require.Nil(t, (&UnusableError{Err: &ModelError{}}).Damage())
}

func TestTrimmedOffsetDiffersFromUnknownOne(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{History: HistoryTail})
	score(t, sv.mg, id, logText(5*testChunk+2))
	for at, trimmed := range map[int64]bool{-1: false, 0: true, 80: true, 83: false} {
		_, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.ErrorAs(t, err, new(*FieldError))
		require.Equal(t, trimmed, errors.As(err, new(*TrimmedError)), "%d", at)
	}
}

func TestImportErrorsSeparateFileReaderAndModel(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(40))
	whole := export(t, mg, id)
	_, err := mg.Import(background, Caller{}, io.MultiReader(bytes.NewReader(whole[:100]),
		iotest.ErrReader(os.ErrDeadlineExceeded)), "")
	var body *BodyError
	require.ErrorAs(t, err, &body)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NotErrorIs(t, err, ErrImport)
	_, err = mg.Import(background, Caller{}, bytes.NewReader(whole[:100]), "")
	require.ErrorIs(t, err, ErrImport)
	_, err = mg.Import(background, Caller{}, io.MultiReader(bytes.NewReader(whole),
		strings.NewReader("more")), "")
	require.ErrorIs(t, err, ErrImport)
	_, err = newManagerOf(t, staticModel(t), Options{}).Import(background, Caller{},
		bytes.NewReader(whole), "")
	require.ErrorIs(t, err, ErrImport)
	require.ErrorAs(t, err, new(*ModelError))
	_, err = mg.Import(background, Caller{}, bytes.NewReader(whole), "")
	require.NoError(t, err)
}

// An import does not trust the size and the settings in its file. The state of the file counts
// toward the memory limit of all states before it is checked. Imports and exports keep nothing else
// in memory.
func TestImportsLookAtTheirStateWithinTheBudget(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodCache,
		"cache_size": sparsemeta.CacheSizeMax}})
	state := get(t, mg, id).MemoryBytes
	score(t, mg, id, logText(40))
	file := export(t, mg, id)
	require.Less(t, int64(len(file)), state/100)

	small := newManager(t, Options{MaxMemoryBytes: state - 1})
	require.ErrorIs(t, errOf(small.Import(background, Caller{}, bytes.NewReader(file), "")),
		ErrFull)
	require.Zero(t, small.index.budget.Used())
	require.Zero(t, small.index.registry.Places())

	sv := newServer(t, t.TempDir(), Options{MaxMemoryBytes: state})
	defer func() { sv.stop() }()
	info, err := sv.mg.Import(background, Caller{}, bytes.NewReader(file), "")
	require.NoError(t, err)
	require.NoError(t, sv.mg.Export(background, Caller{}, info.ID, 0, io.Discard, nil))
	require.Equal(t, state, sv.mg.index.budget.Used(), "the session's own")

	done := make(chan error)
	withSession(t, sv.mg, info.ID, func(*session) {
		go func() { done <- errOf(sv.mg.Import(background, Caller{}, bytes.NewReader(file), "")) }()
		soon(t, "the import waits for memory", sv.mg.index.budget.Waiting)
	})
	require.NoError(t, <-done)
}

// blocked is a slow client of an export: each write blocks until the test releases it.
type blocked struct {
	begun, goOn chan struct{}
	bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	b.begun <- struct{}{}
	<-b.goOn
	return b.Buffer.Write(p)
}

func TestSlowReadersOfExportsKeepNobodyOut(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(40))
	used := mg.index.budget.Used()
	whole := export(t, mg, id)
	slow := make([]*blocked, 5)
	done := make(chan error)
	for i := range slow {
		slow[i] = &blocked{begun: make(chan struct{}, 100), goOn: make(chan struct{})}
		go func() { done <- mg.Export(background, Caller{}, id, 0, slow[i], nil) }()
		select {
		case <-slow[i].begun:
		case err := <-done:
			require.NoError(t, err, "reader %d is kept out", i)
		}
	}
	require.Equal(t, whole, export(t, mg, id))
	require.Equal(t, used, mg.index.budget.Used())
	for _, b := range slow {
		close(b.goOn)
		require.NoError(t, <-done)
		require.Equal(t, whole, b.Bytes())
	}
}

// Only a few exports and imports are packed or parsed at once, so that processors remain for the
// workers.
func TestFilesLeaveTheProcessorsToTheWorkers(t *testing.T) {
	mg := newManager(t, Options{Threads: 4})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(40))
	whole := export(t, mg, id)
	for range 2 {
		mg.engine.packing <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := mg.Import(ctx, Caller{}, bytes.NewReader(whole), "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrImport)
	require.ErrorIs(t, mg.Export(ctx, Caller{}, id, 0, io.Discard, nil), context.DeadlineExceeded)
	score(t, mg, id, "goes on")
	<-mg.engine.packing
	_, err = mg.Import(background, Caller{}, bytes.NewReader(whole), "")
	require.NoError(t, err)
}

func errOf[T any](_ T, err error) error { return err }

// With HistoryTail, a session keeps only the text that it needs. This also holds for a store in
// memory.
func TestTailIsTrimmedInMemoryToo(t *testing.T) {
	for _, history := range []string{HistoryFull, HistoryTail} {
		mg := newManager(t, Options{ReplayMax: 1})
		r := CreateRequest{History: history, Seed: ptr(uint64(3)),
			Settings: Settings{"baseline": true}}
		id, text := create(t, mg, r), logText(20*testChunk+5)
		empty := get(t, mg, id).MemoryBytes
		score(t, mg, id, text)
		found, err := mg.engine.store.Get(background, id)
		require.NoError(t, err)
		kept, err := mg.engine.store.Snapshots(background, id)
		require.NoError(t, err)
		require.Empty(t, kept)
		if history == HistoryFull {
			require.Zero(t, found.Start)
			continue
		}
		require.Equal(t, int64(20*testChunk), found.Start, "the last record is there")
		require.Equal(t, empty+5+recordBytes, get(t, mg, id).MemoryBytes)

		want, _ := alone(t, mg.engine.models[0].Model, r, text)
		require.Equal(t, want.Hash(), hash(t, mg, id))
		_, err = mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: ptr(int64(7))})
		require.ErrorAs(t, err, new(*TrimmedError))
		_, err = mg.Fork(background, Caller{}, id, ForkRequest{History: HistoryFull})
		require.ErrorContains(t, err, "history: found full, expected tail")
		fork, err := mg.Fork(background, Caller{}, id, ForkRequest{})
		require.NoError(t, err)
		imported, err := mg.Import(background, Caller{}, bytes.NewReader(export(t, mg, id)), "")
		require.NoError(t, err)
		want, _ = alone(t, mg.engine.models[0].Model, r, text+"and on")
		for _, id := range []string{id, fork.ID, imported.ID} {
			_, sum := score(t, mg, id, "and on")
			require.Equal(t, want.Tally.Bits, sum.Total.Bits)
			require.Equal(t, want.Hash(), hash(t, mg, id))
			require.NoError(t, mg.Delete(Caller{}, id))
		}
		require.Zero(t, mg.index.budget.Used())
	}
}
