package eval

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
)

// Cached keys and values become outdated when fast weights change. So caching affects the scores
// only of methods that change fast weights.
func TestCachedKeysMatterWhereWeightsMove(t *testing.T) {
	m := small(t, 1)
	dir := corpus(t)
	o := Options{Methods: []string{stream.Static, stream.Cache, stream.SparseMeta,
		stream.DynamicSGD}}
	exact := evaluate(t, m, dir, o)
	o.KV = KVCached
	cached := evaluate(t, m, dir, o)
	require.Equal(t, []string{KVExact, KVCached}, []string{exact.KV, cached.KV})
	for k, method := range o.Methods {
		was, is := exact.Total.Scores[k].Bits, cached.Total.Scores[k].Bits
		if method == stream.SparseMeta || method == stream.DynamicSGD {
			require.NotEqual(t, was, is, method)
		} else {
			require.Equal(t, was, is, method)
		}
	}

	upper, err := model.Branches(m.LM.Layout, []string{"upper"})
	require.NoError(t, err)
	l := &sparsemeta.Learner{Branches: upper, Settings: m.Learner.Settings}
	l.Init(sparsemeta.InitSmall(), 1)
	above, err := model.New("upper", m.LM, l, 8, nil)
	require.NoError(t, err)
	o = Options{KV: KVExact}
	exact = evaluate(t, above, dir, o)
	o.KV = KVCached
	cached = evaluate(t, above, dir, o)
	require.Equal(t, exact.Total.Scores[1].Bits, cached.Total.Scores[1].Bits)
}

// A method's cached keys survive the evaluation of other methods between two documents. So its
// scores do not depend on other methods.
func TestMethodsDoNotLoseTheirKeysToEachOther(t *testing.T) {
	m, dir := small(t, 1), corpus(t)
	o := Options{Methods: []string{stream.SparseMeta}, Reset: ResetNever, KV: KVCached}
	alone := evaluate(t, m, dir, o)
	o.Methods = []string{stream.DynamicSGD, stream.SparseMeta}
	beside := evaluate(t, m, dir, o)
	require.Equal(t, alone.Total.Scores[0].Bits, beside.Total.Scores[1].Bits)
}

func TestOptionsOfKeysAreChecked(t *testing.T) {
	o := Options{KV: "stale"}
	require.ErrorContains(t, o.Validate(small(t, 0)), `kv is "stale", expected exact or cached`)
}
