package eval

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

func small(t *testing.T, learner bool) *model.Model {
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 8, Vocab: 256, SegLen: 8, MemLen: 8})
	require.NoError(t, err)
	lm.Init(1)
	var l *sparsemeta.Learner
	if learner {
		branches, err := model.Branches(lm.Layout, nil)
		require.NoError(t, err)
		l = &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.PaperSettings()}
		l.Init(sparsemeta.InitSmall(), 1)
	}
	m, err := model.New("small", lm, l, 8, nil)
	require.NoError(t, err)
	return m
}

func write(t *testing.T, dir, name, text string) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// Each document is a stream of its own: its score is what scoring it alone
// gives, whatever stands beside it, and the total is the sum.
func TestDocumentsAreStreamsOfTheirOwn(t *testing.T) {
	m, dir := small(t, true), t.TempDir()
	texts := map[string]string{"a/one": "some text that is longer than a chunk", "b": "short", "a/two": "another text, another stream"}
	for name, text := range texts {
		write(t, dir, name, text)
	}
	write(t, dir, "empty", "")
	var last int64
	res, err := Directory(context.Background(), m, dir, Options{Seed: 3, Progress: func(done, total int64) {
		require.Greater(t, done, last)
		require.LessOrEqual(t, done, total)
		last = done
	}})
	require.NoError(t, err)
	require.Equal(t, []string{stream.Static, stream.SparseMeta}, res.Methods, "all the model has")
	require.Len(t, res.Documents, 3)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	sum := make([]float64, 2)
	for i, name := range []string{"a/one", "a/two", "b"} {
		d := res.Documents[i]
		require.Equal(t, name, filepath.ToSlash(d.Path))
		require.EqualValues(t, len(texts[name]), d.Bytes)
		for k, method := range res.Methods {
			set := stream.Defaults(m)
			set.Method, set.Seed = method, 3
			s := stream.New(m, set)
			w.Feed(s, []byte(texts[name]), nil)
			require.Equal(t, s.Tally.Bits, d.Scores[k].Bits)
			sum[k] += d.Scores[k].Bits
		}
	}
	for k := range sum {
		require.InDelta(t, sum[k], res.Total.Scores[k].Bits, 1e-9)
	}
	require.Equal(t, last, 2*res.Total.Bytes)
}

func TestOnlyTheFirstBytesWhenAsked(t *testing.T) {
	m, dir := small(t, false), t.TempDir()
	write(t, dir, "a", "0123456789")
	res, err := Directory(context.Background(), m, dir, Options{MaxBytes: 4})
	require.NoError(t, err)
	require.EqualValues(t, 4, res.Total.Bytes)
	require.Equal(t, []string{stream.Static}, res.Methods)
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	m, dir := small(t, false), t.TempDir()
	_, err := Directory(context.Background(), m, dir, Options{})
	require.ErrorContains(t, err, "no documents")
	_, err = Directory(context.Background(), m, filepath.Join(dir, "missing"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, dir, "a", "text")
	_, err = Directory(context.Background(), m, dir, Options{Methods: []string{stream.SparseMeta}})
	require.ErrorContains(t, err, "no meta-learners")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Directory(ctx, m, dir, Options{})
	require.ErrorIs(t, err, context.Canceled)
}
