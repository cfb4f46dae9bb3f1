package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
)

func settleEach(w *Worker, s *Stream, text string, measured bool) (norms [][]BranchNorm) {
	for text != "" {
		scores := w.Score(s, []byte(text))
		text = text[len(scores.Text):]
		w.Commit(s, scores)
		if !measured {
			w.Settle(s)
		} else if _, n := w.SettleMeasured(s); n != nil {
			norms = append(norms, n)
		}
	}
	return norms
}

func TestMeasuredUpdateIsTheSame(t *testing.T) {
	text := strings.Repeat("GET /index.html 200\n", 5)
	each(t, Methods(), func(t *testing.T, method string) {
		m := testModel(t)
		set := settings(m, methodIs(method))
		plain := New(m, set)
		settleEach(testWorker(t, m, 1), plain, text, false)
		var first [][]BranchNorm
		for _, threads := range []int{1, 3} {
			s := New(m, set)
			norms := settleEach(testWorker(t, m, threads), s, text, true)
			require.Equal(t, plain.Hash(), s.Hash())
			require.Len(t, norms, int(s.Updates()))
			if first == nil {
				first = norms
			}
			require.Equal(t, first, norms)
		}
	})
}

func TestNormsAreThoseOfTheFastWeights(t *testing.T) {
	m := testModel(t)
	w, s := testWorker(t, m, 2), New(m, settings(m, nil))
	settleEach(w, s, strings.Repeat("a line of text\n", 4), false)
	for s.Room() > 1 {
		settleEach(w, s, "x", false)
	}
	before := copyBanks(s.Fast)
	norms := settleEach(w, s, "x", true)[0]
	require.Len(t, norms, len(m.Learner.Branches))
	lo := 0
	for i, b := range m.Learner.Branches {
		n := norms[i]
		require.Equal(t, []any{b.Name, b.Size}, []any{n.Name, n.Size})
		var sum, change float64
		banks := make([]struct{ m, change float64 }, len(before))
		for k := lo; k < lo+b.Size; k++ {
			var is, was float32
			for bank := range before {
				x, y := s.Fast.M[bank].At(k), before[bank][k]
				is, was = is+x, was+y
				banks[bank].m += float64(x) * float64(x)
				banks[bank].change += float64(x-y) * float64(x-y)
			}
			sum, change = sum+float64(is)*float64(is), change+float64(is-was)*float64(is-was)
		}
		near := func(want, got float64) {
			t.Helper() // wide tolerance, because the worker sums squares in float32
			require.InEpsilon(t, math.Sqrt(want), got, 1e-4, b.Name)
		}
		near(sum, n.M)
		near(change, n.Change)
		for bank := range banks {
			near(banks[bank].m, n.Banks[bank].M)
			near(banks[bank].change, n.Banks[bank].Change)
		}
		lo += b.Size
	}
}

func copyBanks(s *sparsemeta.State) [][]float32 {
	banks := make([][]float32, len(s.M))
	for i, m := range s.M {
		banks[i] = make([]float32, m.Len())
		for k := range banks[i] {
			banks[i][k] = m.At(k)
		}
	}
	return banks
}

func TestToldDistributionsHaveTheScores(t *testing.T) {
	eachModel(t, func(t *testing.T, m *model.Model) {
		each(t, adapting, func(t *testing.T, method string) {
			w := testWorker(t, m, 1)
			s := New(m, settings(m, func(set *Settings) {
				set.Method, set.Baseline = method,
					true
			}))
			settleEach(w, s, strings.Repeat("some text ", 5), false)
			scores := w.Score(s, []byte("and "))
			i := 0
			w.Tell(s, scores, func(tok Token) {
				require.InDelta(t, -scores.NLL[i], tok.LogProbs[tok.ID], 2e-6)
				require.InDelta(t, -scores.Baseline[i], tok.Baseline[tok.ID], 2e-6)
				i++
			})
			require.Equal(t, min(4, s.Room()), i)
		})
	})
}

func TestStaticCopyIsBaseline(t *testing.T) { eachModel(t, aStaticCopyIsTheBaseline) }

func aStaticCopyIsTheBaseline(t *testing.T, m *model.Model) {
	text, rest := strings.Repeat("GET /index.html 200\n", 4)[:71],
		"POST /login 403\nand more of it\n"
	each(t, adapting, func(t *testing.T, method string) {
		w := testWorker(t, m, 1)
		s := New(m, settings(m, func(set *Settings) { set.Method, set.Baseline = method, true }))
		require.True(t, s.Settings.HasStatic())
		settleEach(w, s, text, false)
		before := s.Hash()
		static := s.Static()
		var got, want []float32
		w.Feed(static, []byte(rest), func(_ []byte, scores Scores) {
			got = append(got,
				scores.NLL...)
		})
		require.Equal(t, before, s.Hash())
		w.Feed(s, []byte(rest), func(_ []byte, scores Scores) {
			want = append(want,
				scores.Baseline...)
		})
		require.Equal(t, want, got)
	})
}
