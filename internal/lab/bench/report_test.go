package bench

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/txl"
)

func quick() Options { return Options{Chunk: 16, Threads: 2, Seconds: 1e-4} }

func tiny(t *testing.T) *model.Model {
	c, err := txl.Named("tiny")
	require.NoError(t, err)
	m, err := RandomModel("tiny", c)
	require.NoError(t, err)
	return m
}

// reported runs the benchmark, and checks that its report survives JSON.
func reported(t *testing.T, m *model.Model, o Options) (r Report) {
	report, err := Run(context.Background(), m, o)
	require.NoError(t, err)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, report, r)
	return r
}

func requireSound(t *testing.T, r Report) {
	for _, row := range r.Rows {
		for _, v := range []float64{row.Seconds, row.Achieved, row.Limit, row.OfLimit,
			float64(row.Threads)} {
			require.True(t, v > 0 && !math.IsInf(v, 0), "%+v", row)
		}
		require.NotEmpty(t, row.Unit, "%+v", row)
		require.NotEmpty(t, row.What, "%+v", row)
		require.InEpsilon(t, row.Achieved/row.Limit, row.OfLimit, 1e-9, "%+v", row)
	}
}

func (r Report) find(t *testing.T, section, what string, threads int) Row {
	for _, row := range r.Rows {
		if row.Section == section && row.What == what && row.Threads == threads {
			return row
		}
	}
	require.Fail(t, "no row", "%s: %s, %d threads", section, what, threads)
	return Row{}
}

func TestReportHasEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	o := quick()
	counted := countProgress(t, &o)
	r := reported(t, tiny(t), o)
	counted()
	requireSound(t, r)
	require.NotEmpty(t, r.Processor)
	require.Equal(t, []any{"tiny", 16, 64, 1}, []any{r.Model, r.Chunk, r.Memory, r.Banks})
	require.Positive(t, r.FastWeights)
	for _, threads := range []int{1, 2} {
		for _, name := range limitNames {
			r.find(t, Limits, name.what, threads)
		}
		for _, product := range []string{"x Wᵀ", "x (W+M)ᵀ", "dyᵀ x"} {
			for _, w := range []string{"qkv_net", "qkv_net, memory", "r_net", "o_net", "CoreNet.0",
				"CoreNet.3", "softmax"} {
				r.find(t, Kernels, w+"  "+product, threads)
			}
		}
		for _, w := range []string{"qkv_net", "o_net", "CoreNet.0", "CoreNet.3", "softmax"} {
			r.find(t, Kernels, w+"  dy (W+M)", threads)
		}
		r.find(t, Kernels, "update", threads)
		static, adaptive := r.find(t, Chunks, "static chunk", threads),
			r.find(t, Chunks, "adaptive chunk", threads)
		r.find(t, Chunks, "static chunk, anew", threads)
		r.find(t, Chunks, "adaptive chunk, stale keys", threads)
		r.find(t, Chunks, "static beside it", threads)
		require.InEpsilon(t, 16/static.Seconds, static.Achieved, 1e-9, "bytes a second")
		sum := 0.0
		for _, phase := range phaseNames {
			sum += r.find(t, Chunks, "  "+phase, threads).Seconds
		}
		require.Positive(t, adaptive.Seconds)
		require.Positive(t, sum)
		r.find(t, Train, "step of training", threads)
		r.find(t, Decode, "decoded token", threads)
		r.find(t, Decode, "decoded token, mean", threads)
	}
	require.Equal(t, []string{"in registers", "products from cache", "y += a x", "x·y"},
		shapes(r, Limits)[:len(limitNames)])
	for _, what := range []string{"q kᵀ", "p v", "dpᵀ q", "softmax"} {
		r.find(t, Kernels, "a head  "+what, 1)
	}
	require.Equal(t, []string{"1 x 1 thread", "2 x 1 thread", "1 x 2 threads"}, shapes(r, Sessions))
}

func shapes(r Report, section string) (s []string) {
	for _, row := range r.Rows {
		if row.Section == section {
			s = append(s, row.Shape)
		}
	}
	return s
}

func TestStaticModelHasNoAdaptiveRows(t *testing.T) {
	m := tiny(t)
	static, err := model.New("static", m.LM, nil, m.Chunk, nil)
	require.NoError(t, err)
	o := quick()
	o.Threads, o.Only = 1, []string{Chunks, Decode, Sessions}
	r := reported(t, static, o)
	requireSound(t, r)
	require.Zero(t, r.FastWeights)
	require.Equal(t, []string{"16 after 64", "16 after 64", "16"}, shapes(r, Chunks))
	require.Equal(t, []string{"1 x 1 thread"}, shapes(r, Sessions))
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"chunk is 1025, expected 1 to 1024":                      {Chunk: 1025},
		"chunk is -1":                                            {Chunk: -1},
		"threads is -1, expected at least 1":                     {Threads: -1},
		"seconds is NaN, expected a number from 0 to":            {Seconds: math.NaN()},
		`section "gpu" is not known, expected one or more of li`: {Only: []string{Limits, "gpu"}},
	} {
		_, err := Run(context.Background(), nil, o)
		require.ErrorContains(t, err, want)
	}
}

func TestCanceledRunEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := tiny(t)
	o := quick()
	o.Seconds = 1000
	o.Progress = func(string, int, int) { cancel() }
	_, err := Run(ctx, m, o)
	require.ErrorIs(t, err, context.Canceled)
}

func TestProgressCountsTheMeasurements(t *testing.T) {
	m := tiny(t)
	static, err := model.New("static", m.LM, nil, m.Chunk, nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m       *model.Model
		threads int
		only    []string
	}{
		"one thread":       {m, 1, nil},
		"without learners": {static, 2, []string{Kernels, Chunks, Decode}},
		// parallel sessions, so that the race detector can find races
		"two sessions": {m, 2, []string{Sessions}},
	} {
		o := quick()
		o.Threads, o.Only = c.threads, c.only
		counted := countProgress(t, &o)
		_, err := Run(t.Context(), c.m, o)
		require.NoError(t, err, name)
		counted()
	}
}

// countProgress checks that the progress of a run counts 0, 1, 2 and so on. The returned function
// compares the count with the announced total.
func countProgress(t *testing.T, o *Options) (counted func()) {
	told, of := 0, 0
	o.Progress = func(what string, done, total int) {
		require.NotEmpty(t, what)
		require.Equal(t, told, done)
		told, of = told+1, total
	}
	return func() { require.Equal(t, of, told) }
}

func TestUpdateBytes(t *testing.T) {
	l := *tiny(t).Learner
	require.EqualValues(t, 20*l.Size(), updateBytes(&l),
		"G; I and M, in 16 bits, and the sum twice")
	l.Settings.Gammas = []float32{0.9, 0.99}
	require.EqualValues(t, 28*l.Size(), updateBytes(&l), "and I and M of a second bank")
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2., median([]float64{9, 1, 2}))
	require.Equal(t, 1.5, median([]float64{9, 1, 2, 0}))
}
