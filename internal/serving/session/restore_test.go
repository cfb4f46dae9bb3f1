package session

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fading is a context that ends after a number of calls of Err. Computing a chunk calls Err once.
type fading struct {
	context.Context
	asks int
}

func (f *fading) Err() error {
	if f.asks--; f.asks < 0 {
		return context.Canceled
	}
	return nil
}

// coldServer returns a server that was just started, with one session that has no snapshot.
func coldServer(t *testing.T, text string, o Options) (sv *server, id string) {
	sv = newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	id = create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, text)
	sv.options = o
	sv.restart()
	return sv, id
}

func begunAt(t *testing.T, sv *server, id string) int64 {
	s, err := sv.mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.lock(background))
	defer s.unlock()
	switch {
	case s.stream != nil:
		return s.stream.Tally.Bytes
	case s.paused == nil:
		return 0
	}
	return s.paused.stream.Tally.Bytes
}

// A recovery pauses within a chunk when its request is canceled. The next request continues the
// recovery.
func TestRecoveryOutlivesItsRequest(t *testing.T) {
	text := logText(60*testChunk + 5)
	sv, id := coldServer(t, text, Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	for before, requests := int64(0), 0; ; requests++ {
		ctx := &fading{background, 12}
		_, err := sv.mg.Score(ctx, Caller{}, id, bytes.NewReader([]byte("on")), ScoreOptions{},
			noChunks)
		if err == nil {
			require.Greater(t, requests, 4)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, ctx.asks, 0)
		require.Greater(t, ctx.asks, -3, "it has stopped at once")
		at := begunAt(t, sv, id)
		require.Greater(t, at, before, "request %d has done something", requests)
		require.NotZero(t, get(t, sv.mg, id).MemoryBytes)
		require.Equal(t, int64(len(text)), get(t, sv.mg, id).Offset)
		before = at
	}
	requireText(t, sv, id, text+"on")
	require.Empty(t, sv.told())
}

func TestLongRecoveryAsksScoreToRetry(t *testing.T) {
	text := logText(5*testChunk + 5)
	sv, id := coldServer(t, text, Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	sv.mg.engine.scoreRecovery = 1
	sum, err := feed(sv, id, "on", int64(len(text)))
	require.ErrorIs(t, err, ErrOverloaded)
	require.ErrorContains(t, err, "is being recomputed from its text")
	require.Zero(t, sum.Chunks)
	sv.mg.engine.scoreRecovery = time.Minute
	_, err = feed(sv, id, "on", int64(len(text)))
	require.NoError(t, err)
	requireText(t, sv, id, text+"on")
}

// An interrupted recovery takes a snapshot, so that eviction or the end of the process does not
// lose its progress.
func TestLongRecoveryTakesSnapshotsOnItsWay(t *testing.T) {
	text := logText(20*testChunk + 5)
	for name, lose := range map[string]func(sv *server, id string){
		"evicted": func(sv *server, id string) {
			s, err := sv.mg.index.catalog.find(Caller{}, id)
			require.NoError(t, err)
			s.replayCost = time.Minute
			s.evict()
			require.Zero(t, get(t, sv.mg, id).MemoryBytes)
		},
		"killed":  func(sv *server, _ string) { sv.restart() },
		"drained": func(sv *server, id string) { require.NoError(t, sv.mg.Drain(background)) },
	} {
		o := Options{ReplayMax: time.Hour}
		if name == "killed" {
			o.ReplayMax = 1
		}
		sv, id := coldServer(t, text, o)
		ctx := &fading{background, 12}
		_, err := sv.mg.Score(ctx, Caller{}, id, bytes.NewReader([]byte("on")), ScoreOptions{},
			noChunks)
		require.ErrorIs(t, err, context.Canceled)
		if name == "drained" {
			s, err := sv.mg.index.catalog.find(Caller{}, id)
			require.NoError(t, err)
			s.replayCost = time.Minute
		}
		lose(sv, id)
		kept, err := sv.store.Snapshots(background, id)
		require.NoError(t, err)
		require.NotEmpty(t, kept, name)
		require.Less(t, kept[0].Offset, int64(len(text)))
		if name == "drained" {
			require.NoError(t, sv.store.Close())
			sv.start()
		}
		score(t, sv.mg, id, "on")
		requireText(t, sv, id, text+"on")
		require.Empty(t, sv.told())
		sv.stop()
	}
}

// A fork that begins within a record of old text is made without computing its state. Until its
// first use, the fork has the totals at the beginning of this record.
func TestForkFarBackIsMadeAtOnce(t *testing.T) {
	text := logText(20*testChunk + 9)
	for _, at := range []int64{testChunk + 1, 10*testChunk + 7, int64(len(text)) - 1} {
		sv, id := coldServer(t, text, Options{ReplayMax: time.Hour})
		sv.mg.engine.forkRecovery = 1
		border := at / testChunk * testChunk
		fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		require.Equal(t, at, fork.Offset)
		want, _ := alone(t, sv.mg.engine.models[0].Model, CreateRequest{}, text[:border])
		require.Equal(t, []any{border, border, border, want.Tally.Bits},
			[]any{fork.Bytes, fork.Chars, fork.Tokens, fork.Bits}, "of the same text")
		// A fork of an unused fork also has an uncounted last record.
		again, err := sv.mg.Fork(background, Caller{}, fork.ID, ForkRequest{})
		require.NoError(t, err)
		requireClean(t, sv, 3)
		sv.restart()
		require.Equal(t, fork.Tally, get(t, sv.mg, fork.ID).Tally)
		require.WithinDuration(t, time.Now(), get(t, sv.mg, fork.ID).LastUsed, time.Minute)
		score(t, sv.mg, fork.ID, "and on")
		requireText(t, sv, fork.ID, text[:at]+"and on")
		r, err := Replay(background, testModel(t), sv.store, fork.ID, 1, func(int64, int64) {})
		require.NoError(t, err)
		require.Zero(t, r.Wrong)

		info, err := sv.mg.Import(background, Caller{}, bytes.NewReader(export(t, sv.mg, again.ID)),
			"")
		require.NoError(t, err)
		want, _ = alone(t, sv.mg.engine.models[0].Model, CreateRequest{}, text[:at])
		require.Equal(t, want.Tally.Bits, info.Bits)
		require.Equal(t, at, info.Bytes, "the totals are those of all its text")
		require.Equal(t, want.Tally.Bits, get(t, sv.mg, again.ID).Bits, "it was used")
		require.Equal(t, want.Hash(), hash(t, sv.mg, info.ID))
		requireClean(t, sv, 4)
		require.Empty(t, sv.told())
		sv.stop()
	}
}
