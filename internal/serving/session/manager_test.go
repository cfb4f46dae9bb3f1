package session

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
)

func TestSettingsOutOfRangeAreNamed(t *testing.T) {
	mg := newManager(t, Options{})
	for field, r := range map[string]CreateRequest{
		"settings.method":    {Settings: Settings{"method": "dynamic"}},
		"settings.chunk":     {Settings: Settings{"chunk": ChunkTokensMax + 1}},
		"settings.p":         {Settings: Settings{"p": 1.5}},
		"settings.gammas":    {Settings: Settings{"gammas": []float32{0.5}}},
		"settings.gammas[1]": {Settings: Settings{"gammas": []float32{0.5, float32(math.NaN())}}},
		"settings.beta1":     {Settings: Settings{"beta1": float32(-1)}},
		"settings.beta2":     {Settings: Settings{"beta2": float32(math.Inf(1))}},
		"settings.rate":      {Settings: Settings{"rate": float32(math.NaN())}},
		"settings.decay": {Settings: Settings{"method": MethodDynamicSGD,
			"decay": float32(1.5)}},
		"settings.floor": {Settings: Settings{"method": MethodDynamicRMS,
			"floor": float32(1001)}},
		"settings.theta":  {Settings: Settings{"method": MethodCache, "theta": float32(-1)}},
		"settings.lambda": {Settings: Settings{"method": MethodCache, "lambda": float32(1)}},
		"settings.cache_size": {Settings: Settings{"method": MethodCache,
			"cache_size": sparsemeta.CacheSizeMax + 1}},
		"ttl_seconds": {TTL: -time.Second},
		"seed":        {Seed: ptr(uint64(SeedMax + 1))},
		"labels":      {Labels: map[string]string{"": "x"}},
		`labels["k"]`: {Labels: map[string]string{"k": strings.Repeat("é", LabelValueCharsMax+1)}},
	} {
		_, err := mg.Create(context.Background(), Caller{}, r)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
		require.NotEmpty(t, wrong.Found)
		require.NotEmpty(t, wrong.Want)
	}
	_, err := mg.Create(context.Background(), Caller{},
		CreateRequest{Settings: Settings{"gammas": []float32{1}}})
	require.EqualError(t, err, "session: settings.gammas: found 1 value, expected 2 values, one "+
		"for each bank of the model")
	many := map[string]string{}
	for i := range LabelsMax + 1 {
		many[fmt.Sprint(i)] = ""
	}
	_, err = mg.Create(context.Background(), Caller{}, CreateRequest{Labels: many})
	require.EqualError(t, err, "session: labels: found 17 labels, expected at most 16")

	static := newManagerOf(t, staticModel(t), Options{})
	_, err = static.Create(context.Background(), Caller{},
		CreateRequest{Settings: Settings{"method": MethodSparseMeta}})
	require.ErrorContains(t, err, "no meta-learners")
	_, err = static.Create(context.Background(), Caller{},
		CreateRequest{Settings: Settings{"method": MethodDynamicRMS}})
	require.ErrorContains(t, err, "settings.method")
	require.ErrorContains(t, err, "no gradient statistics")
	_, err = static.Create(context.Background(), Caller{},
		CreateRequest{Settings: Settings{"gammas": []float32{1}}})
	require.ErrorContains(t, err, "expected 0 values")
	page, _, _ := mg.List(Caller{}, "", 0)
	require.Empty(t, page, "nothing was made")
}

func TestEverySettingInForceIsReported(t *testing.T) {
	mg := newManager(t, Options{})
	info, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.NoError(t, err)
	rivals := model.DefaultRivals()
	require.Equal(t, Settings{"method": MethodSparseMeta, "chunk": testChunk, "p": .5,
		"gammas": []float32{.99, .99975}, "beta1": float32(.5), "beta2": float32(.5),
		"skip_below": stream.SkipBelowDefault,
		"rate":       rivals.SGD.Rate, "decay": rivals.SGD.Decay, "floor": rivals.SGD.Floor,
		"cache_size": rivals.Cache.Size, "theta": rivals.Cache.Theta, "lambda": rivals.Cache.Lambda,
		"companion": true, "companion_bytes": 1 << 16, "companion_static": true,
		"baseline": false}, info.Settings)
	rms, err := mg.Create(context.Background(), Caller{},
		CreateRequest{Settings: Settings{"method": MethodDynamicRMS, "decay": float32(.5)}})
	require.NoError(t, err)
	require.Equal(t, []any{rivals.RMS.Rate, float32(.5), rivals.RMS.Floor},
		[]any{rms.Settings["rate"], rms.Settings["decay"], rms.Settings["floor"]})
	require.Equal(t, mg.Model().Defaults, info.Settings)
	require.Equal(t, mg.Model().ID, info.Model)
	require.NotEmpty(t, info.Numerics)
	require.NotZero(t, info.MemoryBytes)

	labels := map[string]string{"stream": "nginx"}
	own := CreateRequest{Seed: ptr(uint64(9)), Labels: labels, TTL: time.Hour,
		Settings: Settings{"method": MethodStatic, "chunk": 5, "p": .25,
			"gammas": []float32{0, 1}, "beta1": float32(0), "beta2": float32(2), "skip_below": 1.5,
			"rate": float32(.1), "decay": float32(1), "floor": float32(0),
			"cache_size": 7, "theta": float32(3), "lambda": float32(.5), "companion": false,
			"companion_bytes": 1 << 16, "companion_static": false, "baseline": true}}
	info, err = mg.Create(context.Background(), Caller{}, own)
	require.NoError(t, err)
	require.Equal(t, own.Settings, info.Settings)
	require.Equal(t, own, CreateRequest{Seed: &info.Seed, Labels: info.Labels, TTL: info.TTL,
		Settings: info.Settings})
	require.Equal(t, 0., *info.BaselineBits)
	labels["stream"], info.Labels["stream"], info.Settings["gammas"].([]float32)[0] = "changed",
		"changed", 9
	again := get(t, mg, info.ID)
	require.Equal(t, "nginx", again.Labels["stream"], "the session's own")
	require.Equal(t, []float32{0, 1}, again.Settings["gammas"])

	a, b := create(t, mg, CreateRequest{Seed: nil}), create(t, mg, CreateRequest{Seed: nil})
	require.NotEqual(t, a, b)
	x, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.NoError(t, err)
	y, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.NoError(t, err)
	require.NotEqual(t, x.Seed, y.Seed, "drawn at random")
}

func TestModelIsDescribed(t *testing.T) {
	mg := newManager(t, Options{})
	about := mg.Model()
	require.Equal(t, testModel(t).ID(), about.ID)
	require.Equal(t, "small", about.Name)
	require.True(t, strings.HasPrefix(about.Hash, strings.TrimPrefix(about.ID, "small-")))
	require.Equal(t, int64(testModel(t).LM.Layout.Size), about.Parameters)
	require.Contains(t, string(about.Config), `"d_model":8`)
	require.Equal(t, 2, about.Banks)
	require.JSONEq(t, string(testModel(t).Card), string(about.Card))
	about.Card[0], about.Defaults["gammas"].([]float32)[0] = '?', 7
	require.JSONEq(t, string(testModel(t).Card), string(mg.Model().Card))
	require.NotEqual(t, float32(7), mg.Model().Defaults["gammas"].([]float32)[0])

	static := newManagerOf(t, staticModel(t), Options{}).Model()
	require.Equal(t, MethodStatic, static.Defaults["method"])
	require.Zero(t, static.Banks)
	require.Empty(t, static.Card)
}

func TestOptionsOutOfRangeAreNamed(t *testing.T) {
	for field, o := range map[string]Options{
		"max_sessions":      {MaxSessions: -1},
		"max_memory_bytes":  {MaxMemoryBytes: -1},
		"max_session_bytes": {MaxSessionBytes: -1},
		"threads":           {Threads: ThreadsMax + 1},
	} {
		_, err := NewManager(testModel(t), o)
		require.ErrorContains(t, err, field)
	}
}

func TestSessionsAreListedInTheOrderOfCreation(t *testing.T) {
	mg := newManager(t, Options{MaxSessions: 7})
	var ids []string
	for range 7 {
		ids = append(ids, create(t, mg, CreateRequest{}))
	}
	require.True(t, slices.IsSorted(ids))
	for _, limit := range []int{1, 3, 6, 7, 8, 0, ListMax + 1} {
		var got []string
		for after := ""; ; {
			page, next, _ := mg.List(Caller{}, after, limit)
			for _, info := range page {
				got = append(got, info.ID)
			}
			if next == "" {
				break
			}
			require.Len(t, page, limit)
			after = next
		}
		require.Equal(t, ids, got, "limit %d", limit)
	}
	require.NoError(t, mg.Delete(Caller{}, ids[2]))
	page, next, _ := mg.List(Caller{}, ids[2], 2)
	require.Equal(t, ids[3], page[0].ID, "after one that is gone")
	require.Equal(t, ids[4], next)
}

func TestUnknownAndDeletedSessionsAreNotFound(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	require.NoError(t, mg.Delete(Caller{}, id))
	for _, id := range []string{id, "", "no such id"} {
		_, err := mg.Get(Caller{}, id)
		require.ErrorIs(t, err, ErrNotFound)
		require.ErrorIs(t, mg.Delete(Caller{}, id), ErrNotFound)
		_, err = mg.Score(context.Background(), Caller{}, id, unread{t}, ScoreOptions{}, nil)
		require.ErrorIs(t, err, ErrNotFound)
		_, err = mg.Complete(context.Background(), Caller{}, id, CompleteRequest{MaxTokens: 1}, nil)
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.Zero(t, mg.index.budget.Used())
}

func TestDeletingASessionEndsItsFeederAfterItsChunk(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	events := 0
	sum, err := mg.Score(context.Background(), Caller{}, id, endless{}, ScoreOptions{},
		func(Chunk) error {
			if events++; events == 2 {
				return mg.Delete(Caller{}, id)
			}
			return nil
		})
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, 2, events)
	require.Equal(t, int64(2*testChunk), sum.Offset)
	require.Zero(t, mg.index.budget.Used())
}

func TestSecondFeederIsRefusedAtOnce(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	body, client := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{}, noChunks)
		done <- err
	}()
	_, err := io.WriteString(client, "0123456789")
	require.NoError(t, err)
	soon(t, "it is fed", func() bool { return get(t, mg, id).Offset == 10 })
	_, err = mg.Score(context.Background(), Caller{}, id, unread{t},
		ScoreOptions{Offset: ptr(int64(10))}, nil)
	require.ErrorIs(t, err, ErrBusy)
	client.Close()
	require.NoError(t, <-done)
	score(t, mg, id, "now it can be fed")
}

func TestNumberOfSessionsIsBounded(t *testing.T) {
	mg := newManager(t, Options{MaxSessions: 2})
	a := create(t, mg, CreateRequest{})
	create(t, mg, CreateRequest{})
	_, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrFull)
	require.NoError(t, mg.Delete(Caller{}, a))
	create(t, mg, CreateRequest{})
}

func TestMemoryOfAllSessionsIsBounded(t *testing.T) {
	probe := newManager(t, Options{})
	one := get(t, probe, create(t, probe, CreateRequest{})).MemoryBytes
	most := 2*one + 6*(testChunk+recordBytes) + 1
	mg := newManager(t, Options{MaxMemoryBytes: most})
	id := create(t, mg, CreateRequest{})
	create(t, mg, CreateRequest{})
	_, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrFull)
	sum, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader(logText(1000)),
		ScoreOptions{}, noChunks)
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, int64(6*testChunk), sum.Offset)
	_, err = mg.Complete(context.Background(), Caller{}, id,
		CompleteRequest{Prompt: make([]byte, 50), MaxTokens: 1, Commit: CommitPrompt}, noPieces)
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, sum.Offset, get(t, mg, id).Offset)
	require.LessOrEqual(t, mg.index.budget.Used(), most)
}

func TestTextOfSessionHasExactLimit(t *testing.T) {
	mg := newManager(t, Options{MaxSessionBytes: 50})
	for _, body := range []io.Reader{strings.NewReader(logText(60)), bytewiseBody(logText(60))} {
		id := create(t, mg, CreateRequest{})
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{}, noChunks)
		var full *LimitError
		require.ErrorAs(t, err, &full)
		require.Equal(t, LimitError{Offset: 50, Max: 50}, *full)
		requireFed(t, mg, id, logText(50))
	}
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(30))
	before := hash(t, mg, id)
	_, err := mg.Complete(context.Background(), Caller{}, id,
		CompleteRequest{Prompt: []byte("eleven byte"), MaxTokens: 10, Commit: CommitAll}, noPieces)
	require.ErrorAs(t, err, new(*LimitError))
	require.Equal(t, before, hash(t, mg, id), "a completion that might not fit changes nothing")
	complete(t, mg, id, CompleteRequest{Prompt: []byte("ten bytes."), MaxTokens: 10,
		Commit: CommitAll})
	score(t, mg, id, "")
}

func TestSessionsExpireWhenTheyAreNotUsed(t *testing.T) {
	mg := newManager(t, Options{MaxSessions: 3})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	id, lasting := create(t, mg, CreateRequest{TTL: time.Minute}), create(t, mg, CreateRequest{})
	now = now.Add(59 * time.Second)
	get(t, mg, id)
	score(t, mg, id, "used")
	require.Equal(t, now.UTC(), get(t, mg, id).LastUsed)
	now = now.Add(59 * time.Second)
	complete(t, mg, id, CompleteRequest{MaxTokens: 1})
	now = now.Add(59 * time.Second)
	get(t, mg, id)
	now = now.Add(time.Second)
	_, err := mg.Get(Caller{}, id)
	require.ErrorIs(t, err, ErrNotFound)

	create(t, mg, CreateRequest{TTL: time.Minute})
	create(t, mg, CreateRequest{TTL: time.Minute})
	_, err = mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrFull)
	now = now.Add(time.Hour)
	create(t, mg, CreateRequest{})
	page, _, _ := mg.List(Caller{}, "", 0)
	require.Len(t, page, 2)
	require.Equal(t, lasting, page[0].ID)
	require.Equal(t, page[0].MemoryBytes+page[1].MemoryBytes, mg.index.budget.Used())
}

func TestSessionInUseDoesNotExpire(t *testing.T) {
	mg := newManager(t, Options{})
	clock := make(chan time.Duration, 1)
	start := time.Now()
	clock <- 0
	mg.engine.clock.read = func() time.Time { d := <-clock; clock <- d; return start.Add(d) }
	id := create(t, mg, CreateRequest{TTL: time.Minute})
	body, client := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{}, noChunks)
		done <- err
	}()
	_, err := io.WriteString(client, "slow")
	require.NoError(t, err)
	<-clock
	clock <- time.Hour
	get(t, mg, id)
	client.Close()
	require.NoError(t, <-done)
	require.Equal(t, start.Add(time.Hour).UTC(), get(t, mg, id).LastUsed)
}

func TestDrainWaitsForTheChunkUnderWay(t *testing.T) {
	mg := newManager(t, Options{})
	id, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	reached, resume := make(chan struct{}), make(chan struct{})
	fed := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, endless{}, ScoreOptions{},
			func(c Chunk) error {
				if c.Step == 1 {
					close(reached)
					<-resume
				}
				return nil
			})
		fed <- err
	}()
	<-reached
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, mg.Drain(short), context.DeadlineExceeded)
	_, err := mg.Create(context.Background(), Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrDraining)
	_, err = mg.Score(context.Background(), Caller{}, other, unread{t}, ScoreOptions{}, nil)
	require.ErrorIs(t, err, ErrDraining)
	_, err = mg.Complete(context.Background(), Caller{}, other, CompleteRequest{MaxTokens: 1},
		noPieces)
	require.ErrorIs(t, err, ErrDraining)
	get(t, mg, other)

	drained := make(chan error, 1)
	go func() { drained <- mg.Drain(context.Background()) }()
	close(resume)
	require.ErrorIs(t, <-fed, ErrDraining)
	require.NoError(t, <-drained)
	require.NoError(t, mg.Drain(context.Background()), "again")
	requireFed(t, mg, id, logged(t, mg, id), "settled")
	require.Equal(t, int64(2*testChunk), get(t, mg, id).Offset)
	require.NoError(t, mg.Delete(Caller{}, other))
}

func TestDrainDoesNotWaitForBodies(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	body, client := io.Pipe()
	fed := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{}, noChunks)
		fed <- err
	}()
	_, err := io.WriteString(client, "kept")
	require.NoError(t, err)
	soon(t, "it is fed", func() bool { return get(t, mg, id).Offset == 4 })
	require.NoError(t, mg.Drain(context.Background()))
	_, err = io.WriteString(client, "too late")
	require.NoError(t, err)
	require.ErrorIs(t, <-fed, ErrDraining)
	require.Equal(t, int64(4), get(t, mg, id).Offset)
}

func TestDrainLetsACompletionFinish(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	drained := make(chan error, 1)
	first := true
	seed := uint64(1) // with this seed, the text ends with a whole character
	request := CompleteRequest{
		Prompt: []byte(logText(40)), MaxTokens: 50, Commit: CommitAll, Seed: &seed,
	}
	done, err := mg.Complete(context.Background(), Caller{}, id, request, func(Piece) error {
		if first {
			go func() { drained <- mg.Drain(context.Background()) }()
			soon(t, "it drains", func() bool {
				_, err := mg.Create(context.Background(), Caller{},
					CreateRequest{})
				return err != nil
			})
		}
		first = false
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(90), done.Offset)
	require.NoError(t, <-drained)
}
