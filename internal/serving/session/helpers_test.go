package session

import (
	"cmp"
	"context"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

func TestMain(m *testing.M) {
	// Each check of package rapid runs a model, which is slow. So the default is 10 checks instead
	// of 100; the flag -rapid.checks overrides it.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const testChunk = modeltest.Chunk

func testModel(t testing.TB) *model.Model {
	m, err := modeltest.Small()
	require.NoError(t, err)
	return m
}

func staticModel(t testing.TB) *model.Model {
	m, err := model.New("static", testModel(t).LM, nil, testChunk, nil)
	require.NoError(t, err)
	return m
}

func newManager(t testing.TB, o Options) *Manager {
	return newManagerOf(t, testModel(t), o)
}

func newManagerOf(t testing.TB, m *model.Model, o Options) *Manager {
	mg, err := NewManager(m, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, mg.Drain(ctx))
	})
	return mg
}

// fatal is the common part of testing.T and rapid.T.
type fatal interface {
	require.TestingT
	Helper()
}

func ptr[T any](v T) *T { return &v }

// seeded returns the request with a seed, so that create and alone make equal streams.
func seeded(r CreateRequest) CreateRequest {
	r.Seed = cmp.Or(r.Seed, ptr(uint64(3)))
	return r
}

func create(t fatal, mg *Manager, r CreateRequest) string {
	t.Helper()
	info, err := mg.Create(context.Background(), Caller{}, seeded(r))
	require.NoError(t, err)
	return info.ID
}

func get(t fatal, mg *Manager, id string) Info {
	t.Helper()
	info, err := mg.Get(Caller{}, id)
	require.NoError(t, err)
	return info
}

func score(t fatal, mg *Manager, id, text string) ([]Chunk, Summary) {
	t.Helper()
	return scoreBody(t, mg, id, strings.NewReader(text))
}

func scoreBody(t fatal, mg *Manager, id string, body io.Reader) (chunks []Chunk, sum Summary) {
	t.Helper()
	sum, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{LogProbs: true},
		func(c Chunk) error {
			chunks = append(chunks, c)
			return nil
		})
	require.NoError(t, err)
	return chunks, sum
}

func logProbs(chunks []Chunk) (all []float64) {
	for _, c := range chunks {
		all = append(all, c.LogProbs...)
	}
	return all
}

func withSession(t fatal, mg *Manager, id string, f func(s *session)) {
	t.Helper()
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.open(context.Background(), 0))
	defer s.unlock()
	f(s)
}

func logged(t fatal, mg *Manager, id string) string {
	t.Helper()
	var text []byte
	require.NoError(t, mg.engine.store.Read(context.Background(), id, 0,
		func(_ int64, r storage.Record) error {
			text = append(text, r.Text...)
			return nil
		}))
	return string(text)
}

func hash(t fatal, mg *Manager, id string) (h string) {
	t.Helper()
	withSession(t, mg, id, func(s *session) { h = s.stream.Hash() })
	return h
}

// alone feeds text to a stream directly, without this package.
func alone(t fatal, m *model.Model, r CreateRequest, text string) (s *stream.Stream,
	logProbs []float64) {
	t.Helper()
	set, err := effective(m, r.Settings)
	require.NoError(t, err)
	set.Seed = *seeded(r).Seed
	s = stream.New(m, set)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	w.Feed(s, []byte(text), func(_ []byte, scores stream.Scores) {
		for _, nll := range scores.NLL {
			logProbs = append(logProbs, -float64(nll))
		}
	})
	return s, logProbs
}

// requireFed requires that a session of create has the state of a stream of the default model that
// was fed only the text.
func requireFed(t fatal, mg *Manager, id, text string, what ...any) {
	t.Helper()
	requireSame(t, mg, id, mg.engine.models[0].Model, text, what...)
}

// requireSame is requireFed for a session of model m.
func requireSame(t fatal, mg *Manager, id string, m *model.Model, text string, what ...any) {
	t.Helper()
	want, _ := alone(t, m, CreateRequest{}, text)
	require.Equal(t, want.Hash(), hash(t, mg, id), what...)
}

// appending is a store that calls the function before at each append. If the function returns an
// error, the append fails with this error.
type appending struct {
	storage.Store
	before func(id string, at int64) error
}

func (a *appending) Append(
	ctx context.Context, id string, epoch uint64, at int64, records ...storage.Record,
) error {
	if err := a.before(id, at); err != nil {
		return err
	}
	return a.Store.Append(ctx, id, epoch, at, records...)
}

// logText returns text that is similar to a log file: 30 different lines, again and again.
func logText(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		b.WriteString([]string{"GET /index.html", "GET /style.css", "POST /login"}[i%3])
		b.WriteString(" from 10.0.0.")
		b.WriteByte(byte('0' + i*7%10))
		b.WriteString(" -> 200\n")
	}
	return b.String()[:bytes]
}

type reads []string

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*r)[0])
	if (*r)[0] = (*r)[0][n:]; (*r)[0] == "" {
		*r = (*r)[1:]
	}
	return n, nil
}

// cut splits a text at random into pieces. Parameter `most` is the maximum length of a piece in
// bytes.
func cut(t *rapid.T, text string, most int) (pieces []string) {
	for len(text) > 0 {
		n := min(len(text), rapid.IntRange(1, most).Draw(t, "piece"))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func drawRequest(t *rapid.T) CreateRequest {
	return CreateRequest{Seed: ptr(rapid.Uint64Range(0, SeedMax).Draw(t, "seed")),
		Settings: Settings{
			"method": rapid.SampledFrom([]string{MethodSparseMeta, MethodSparseMeta, MethodStatic,
				MethodDynamicSGD, MethodDynamicRMS, MethodCache}).
				Draw(t, "method"),
			"chunk":    rapid.SampledFrom([]int{testChunk, testChunk, 7, 1, 40}).Draw(t, "chunk"),
			"baseline": rapid.Bool().Draw(t, "baseline"),
		}}
}

func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, time.Millisecond, what)
}
