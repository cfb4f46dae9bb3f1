package stream

import (
	"flag"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func TestMain(m *testing.M) {
	// A check takes long here, so the default is 10 checks instead of rapid's 100.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const testChunk = 16

// testModel returns a small random model with two banks. The model's settings let fast weights
// affect every score after the first chunk.
func testModel(t testing.TB) *model.Model {
	m, err := theModel()
	require.NoError(t, err)
	return m
}

var theModel = sync.OnceValues(func() (*model.Model, error) { return newModel(nil) })

// eachModel runs a test for testModel and for models that differ in one part: clusters of the
// vocabulary, fast weights in the upper half, or the loss of the mixture.
func eachModel(t *testing.T, f func(t *testing.T, m *model.Model)) {
	t.Run("plain", func(t *testing.T) { f(t, testModel(t)) })
	clusters := testConfig
	clusters.Cutoffs, clusters.DivVal, clusters.TieProjs = []int{47, 101}, 2, []bool{false, true}
	m, err := newModelOf(clusters, nil)
	require.NoError(t, err)
	t.Run("clusters", func(t *testing.T) { f(t, m) })
	t.Run("upper", func(t *testing.T) { f(t, upperModel(t)) })
	t.Run("mixture", func(t *testing.T) { f(t, mixtureModel(t, testModel(t), 0.7)) })
}

// upperModel returns a model with fast weights in its upper half, like the embedded model. Two of
// its three layers have the same inputs as in the static model.
func upperModel(t testing.TB) *model.Model {
	c := testConfig
	c.NLayer = 3
	m, err := newModelOf(c, []string{"upper"})
	require.NoError(t, err)
	return m
}

var testConfig = txl.Config{
	NLayer: 2, DModel: 16, NHead: 2, DHead: 8, DInner: 24, Vocab: 256, SegLen: testChunk,
	MemLen: 20,
}

// newModel returns a model with fast weights for the weights whose names match the patterns.
func newModel(patterns []string) (*model.Model, error) { return newModelOf(testConfig, patterns) }

func newModelOf(c txl.Config, patterns []string) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(7)
	branches, err := model.Branches(lm.Layout, patterns)
	if err != nil {
		return nil, err
	}
	learner := &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.TwoBankSettings()}
	learner.Settings.Out, learner.Settings.Gammas = 1, []float32{0.98, 0.9995}
	learner.Init(sparsemeta.InitHe(), 11)
	m, err := model.New("test", lm, learner, testChunk, nil)
	if err != nil {
		return nil, err
	}
	rms := make([]float32, len(lm.W))
	for i := range rms {
		rms[i] = 1e-3 * float32(1+i%7)
	}
	if m, err = m.WithStatistics(rms); err != nil {
		return nil, err
	}
	return m.WithRivals(model.Rivals{
		SGD: sparsemeta.DynamicSettings{Rate: 1, Decay: 0.05},
		RMS: sparsemeta.DynamicSettings{Rate: 0.01, Decay: 0.05, Floor: 0.3},
		// The cache is small, so that its window also slides within a chunk.
		Cache: sparsemeta.CacheSettings{Size: 24, Theta: 1, Lambda: 0.4},
	})
}

var adapting = []string{SparseMeta, DynamicSGD, DynamicRMS, Cache}

func each(t *testing.T, methods []string, f func(t *testing.T, method string)) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) { f(t, method) })
	}
}

func methodIs(method string) func(*Settings) { return func(s *Settings) { s.Method = method } }

func testWorker(t testing.TB, m *model.Model, threads int) *Worker {
	w := NewWorker(m, threads)
	t.Cleanup(w.Close)
	return w
}

func settings(m *model.Model, change func(*Settings)) Settings {
	s := Defaults(m)
	s.Seed = 3
	if change != nil {
		change(&s)
	}
	return s
}

const text = `GET /index.html 200 5120
GET /style.css 200 771
GET /index.html 304 0
POST /login 302 12
GET /index.html 304 0
`

func scored(w *Worker, s *Stream, text string) (nll []float32) {
	w.Feed(s, []byte(text), func(_ []byte, scores Scores) { nll = append(nll, scores.NLL...) })
	return nll
}

func pieces(t *rapid.T, text string) (cut []string) {
	for len(text) > 0 {
		n := min(len(text), rapid.IntRange(1, 40).Draw(t, "piece"))
		cut, text = append(cut, text[:n]), text[n:]
	}
	return cut
}

func TestScoreWithoutCommitChangesNothing(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	rapid.Check(t, func(t *rapid.T) {
		s := New(m, settings(m, func(set *Settings) {
			set.Baseline = rapid.Bool().Draw(t, "baseline")
			set.Method = rapid.SampledFrom(Methods()).Draw(t, "method")
		}))
		w.Feed(s, []byte(text[:rapid.IntRange(0, 90).Draw(t, "before")]), nil)
		before := s.Hash()
		n := rapid.IntRange(0, s.Room()).Draw(t, "scored")
		first := append([]float32(nil), w.Score(s, []byte(text[:n])).NLL...)
		w.Score(s, []byte(strings.Repeat("#", rapid.IntRange(0, s.Room()).Draw(t, "other"))))
		require.Equal(t, first, append([]float32(nil), w.Score(s, []byte(text[:n])).NLL...),
			"another text scored between")
		require.Equal(t, before, s.Hash())
	})
}

func TestFeedIsTheSameHoweverTheTextIsSplit(t *testing.T) {
	eachModel(t, splitsChangeNothing)
}

func splitsChangeNothing(t *testing.T, m *model.Model) {
	one, two := testWorker(t, m, 1), testWorker(t, m, 3)
	long := text + text[:20]
	rapid.Check(t, func(t *rapid.T) {
		set := settings(m, func(set *Settings) {
			set.Baseline = rapid.Bool().Draw(t, "baseline")
			set.Chunk = rapid.SampledFrom([]int{1, 5, testChunk, 33}).Draw(t, "chunk")
			set.Method = rapid.SampledFrom(Methods()).Draw(t, "method")
		})
		whole := New(m, set)
		want := scored(one, whole, long)
		require.Len(t, want, len(long), "every byte is scored")
		split := New(m, set)
		var got []float32
		for _, piece := range pieces(t, long) {
			w := one
			if rapid.Bool().Draw(t, "the other worker") {
				w = two
				w.Exec.SetThreads(rapid.IntRange(1, 3).Draw(t, "threads"))
			}
			got = append(got, scored(w, split, piece)...)
		}
		require.Equal(t, want, got)
		require.Equal(t, whole.Tally, split.Tally, "sums too, to the bit")
		require.Equal(t, whole.Hash(), split.Hash())
		require.Equal(t, uint64(len(long)/set.Chunk), split.Step)
	})
}

func TestStreamsOnSharedWorkerStayIndependent(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	rapid.Check(t, func(t *rapid.T) {
		const n = 3
		var alone, together [n]*Stream
		var texts [n]string
		for i := range n {
			set := settings(m, func(set *Settings) {
				set.Seed, set.Chunk = uint64(i), 8*(1+i/2)
				set.Baseline = rapid.Bool().Draw(t, "baseline")
				set.CompanionStatic = rapid.Bool().Draw(t, "companion_static")
				set.Method = rapid.SampledFrom(Methods()).Draw(t, "method")
			})
			alone[i], together[i] = New(m, set), New(m, set)
			texts[i] = text[10*i : 10*i+70]
			w.Feed(alone[i], []byte(texts[i]), nil)
		}
		for left := n; left > 0; {
			i := rapid.IntRange(0, n-1).Draw(t, "stream")
			k := min(len(texts[i]), rapid.IntRange(1, 20).Draw(t, "piece"))
			if k == 0 {
				continue
			}
			w.Feed(together[i], []byte(texts[i][:k]), nil)
			if texts[i] = texts[i][k:]; texts[i] == "" {
				left--
			}
		}
		for i := range n {
			require.Equal(t, alone[i].Hash(), together[i].Hash(), "stream %d", i)
		}
	})
}

// A worker that continues with a stream's next chunk reuses results that fast weights do not
// affect. Its scores must be bit-identical to the scores of a new worker.
func TestUsedWorkerEqualsFreshOne(t *testing.T) {
	m, err := newModel([]string{"layers.1.*_net.weight", "*.CoreNet.*", "crit.*"})
	require.NoError(t, err)
	set := Defaults(m)
	s, again := New(m, set), New(m, set)
	w := NewWorker(m, 2)
	defer w.Close()
	text := []byte(strings.Repeat("keys stand while values move; ", 20))[:20*testChunk]
	for at := 0; at < len(text); at += testChunk {
		var nll []float32
		w.Feed(s, text[at:at+testChunk], func(_ []byte, scores Scores) {
			nll = append(nll,
				scores.NLL...)
		})
		fresh := NewWorker(m, 1)
		fresh.Feed(again, text[at:at+testChunk], func(_ []byte, scores Scores) {
			require.Equal(t,
				nll, scores.NLL)
		})
		fresh.Close()
	}
	require.NotZero(t, s.FastRMS())
	require.Equal(t, again.Hash(), s.Hash())
}

func TestLaterByteNeverChangesEarlierScore(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		set := settings(m, methodIs(method))
		want := scored(w, New(m, set), text[:80])
		rapid.Check(t, func(t *rapid.T) {
			at := rapid.IntRange(0, 79).Draw(t, "changed byte")
			other := []byte(text[:80])
			other[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
			got := scored(w, New(m, set), string(other))
			require.Equal(t, want[:at], got[:at])
			require.NotEqual(t, want[at:], got[at:],
				"the changed byte and what it teaches are seen")
		})
	})
}

func TestNothingWrittenIsStatic(t *testing.T) { eachModel(t, nothingWrittenIsStatic) }

func nothingWrittenIsStatic(t *testing.T, m *model.Model) {
	w := testWorker(t, m, 1)
	alone := func(s *Settings) { s.Companion, s.Baseline = false, true }
	static := scored(w, New(m, settings(m, func(s *Settings) { alone(s); s.Method = Static })),
		text)
	never := New(m, settings(m, func(s *Settings) { alone(s); s.Adapt.P = 0 }))
	require.Equal(t, static, scored(w, never, text), "p = 0, to the bit")
	require.Equal(t, never.Tally, never.Baseline)
	require.NotZero(t, never.Step)
	require.Zero(t, never.FastRMS())

	adapted := New(m, settings(m, alone))
	got := scored(w, adapted, text)
	require.Equal(t, static[:testChunk], got[:testChunk], "the first chunk is scored before any "+
		"update")
	require.NotEqual(t, static[testChunk:2*testChunk], got[testChunk:2*testChunk])
	require.Equal(t, never.Tally, adapted.Baseline)
	require.NotZero(t, adapted.FastRMS())
	require.NotZero(t, adapted.Written)
}

func TestRivalsThatDoNothingAreStatic(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	static := scored(w, New(m, settings(m, methodIs(Static))), text)
	each(t, []string{DynamicSGD, DynamicRMS, Cache}, func(t *testing.T, method string) {
		idle := settings(m, methodIs(method))
		idle.SGD.Rate, idle.RMS.Rate, idle.Cache.Lambda = 0, 0, 0
		require.Equal(t, static, scored(w, New(m, idle), text), "to the bit")
		busy := New(m, settings(m, func(s *Settings) { s.Method, s.Baseline = method, true }))
		got := scored(w, busy, text)
		require.NotEqual(t, static, got)
		require.Equal(t, static[:1], got[:1], "before anything was read")
		require.Equal(t, method == Cache, busy.Updates() == 0)
		require.Equal(t, method == Cache, busy.FastRMS() == 0)
	})
}

func TestEveryMethodLearnsFromRepetition(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	m, err := model.Default()
	require.NoError(t, err)
	const fed = "one potato, two potato, three potato, four; "
	w := testWorker(t, m, 2)
	each(t, adapting, func(t *testing.T, method string) {
		set := DefaultsFor(m, method)
		set.Baseline = true
		s := New(m, set)
		w.Feed(s, []byte(strings.Repeat(fed, 12)), nil)
		// The static model's memory also predicts repetitions, so the required margin is small.
		require.Less(t, s.Tally.Bits, 0.8*s.Baseline.Bits)
	})
}

func nextByte(w *Worker, s *Stream) (probs [256]float64) {
	for id := range probs {
		probs[id] = math.Exp(-float64(w.Score(s, []byte{byte(id)}).NLL[0]))
	}
	return probs
}

func TestProbabilitiesOfTheNextByteSumToOne(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		s := New(m, settings(m, methodIs(method)))
		for at := range 60 {
			if at%7 == 0 {
				var sum float64
				for _, p := range nextByte(w, s) {
					sum += p
				}
				// Each of the 256 terms has the relative error of float32, about 6e-8.
				require.InDelta(t, 1, sum, 2e-6, "position %d", at)
			}
			w.Feed(s, []byte(text[at:at+1]), nil)
		}
		require.Equal(t, method == Static || method == Cache, s.FastRMS() == 0,
			"of an adapted stream")
	})
}

func sampler(seed uint64) *txl.Sampler {
	return txl.NewSampler(txl.Sampling{Temperature: 1, Seed: seed}, 256)
}

func generated(w *Worker, s *Stream, prompt string, n int, seed uint64) (ids []int32,
	logProbs []float32) {
	s = s.Frozen()
	w.Feed(s, []byte(prompt), nil)
	w.Generate(s, sampler(seed), func(id int32, logProb float32) bool {
		ids, logProbs = append(ids, id), append(logProbs, logProb)
		return len(ids) < n
	})
	return ids, logProbs
}

func TestCompletionLeavesStreamUnchanged(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 2)
	rapid.Check(t, func(t *rapid.T) {
		fed := rapid.IntRange(0, 80).Draw(t, "fed")
		set := settings(m, methodIs(rapid.SampledFrom(Methods()).Draw(t, "method")))
		plain, disturbed := New(m, set), New(m, set)
		want := scored(w, plain, text)
		got := scored(w, disturbed, text[:fed])
		before := disturbed.Hash()
		prompt, n := text[:rapid.IntRange(0, 50).Draw(t, "prompt")], rapid.IntRange(1, 50).Draw(t,
			"tokens")
		ids, logProbs := generated(w, disturbed, prompt, n, 5)
		require.Len(t, ids, n)
		require.Equal(t, before, disturbed.Hash())
		again, againLogProbs := generated(w, disturbed, prompt, n, 5)
		require.Equal(t, ids, again, "same seed, same text")
		require.Equal(t, logProbs, againLogProbs)
		got = append(got, scored(w, disturbed, text[fed:])...)
		require.Equal(t, want, got)
		require.Equal(t, plain.Hash(), disturbed.Hash())
	})
}

func TestGenerateDrawsFromTheDistributionThatScoreUses(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom(Methods()).Draw(t, "method")
		learns := method == Cache || rapid.Bool().Draw(t, "companion")
		s := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = method, learns }))
		w.Feed(s, []byte(text[:rapid.IntRange(0, 80).Draw(t, "fed")]), nil)
		prompt := text[:rapid.IntRange(0, s.Room()-1).Draw(t, "prompt")]
		n := min(rapid.IntRange(1, 8).Draw(t, "tokens"), s.Room()-len(prompt))
		ids, logProbs := generated(w, s, prompt, n, rapid.Uint64().Draw(t, "seed"))
		scores := w.Score(s, tokenizer.Bytes{}.Decode([]byte(prompt), ids))
		if scores.Diverged || len(scores.NLL) < len(prompt)+n {
			return // The weights diverge, so the text is scored one token at a time.
		}
		nll := scores.NLL[len(prompt):]
		if learns {
			// Companion and cache learn the scored text, so only the first token's distribution is
			// equal.
			logProbs = logProbs[:1]
		}
		for i := range logProbs {
			// LogProbs and NLL subtract the same log-sum-exp from a logit, but may be rounded
			// differently.
			require.InDelta(t, -nll[i], logProbs[i], 1e-5, "token %d", i)
		}
	})
}

func TestCompletionPastChunkKeepsItsWeights(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	// The static model never changes its weights, so generated tokens and fed tokens have equal
	// scores. A cache with weight 0 has the same property.
	each(t, []string{Static, Cache}, func(t *testing.T, method string) {
		s := New(m, settings(m, func(s *Settings) {
			s.Method, s.Companion = method, false
			s.Cache.Lambda = 0
		}))
		w.Feed(s, []byte(text[:37]), nil)
		ids, logProbs := generated(w, s, text[:9], 3*testChunk, 1)
		var nll []float32
		all := tokenizer.Bytes{}.Decode([]byte(text[:9]), ids)
		w.Feed(s, all, func(_ []byte, scores Scores) { nll = append(nll, scores.NLL...) })
		for i := range logProbs {
			require.InDelta(t, -nll[9+i], logProbs[i], 1e-5, "token %d", i)
		}
	})
}

func TestWarmChunkAllocatesNothing(t *testing.T) {
	eachModel(t, warmChunksAllocateNothing)
}

func warmChunksAllocateNothing(t *testing.T, m *model.Model) {
	each(t, Methods(), func(t *testing.T, method string) {
		for _, threads := range []int{1, 2} {
			w := testWorker(t, m, threads)
			s := New(m, settings(m, func(s *Settings) { s.Method, s.Baseline = method, true }))
			chunk := []byte(text[:testChunk])
			warm := func() {
				w.Commit(s, w.Score(s, chunk[:5]))
				w.Commit(s, w.Score(s, chunk[5:]))
				w.Settle(s)
			}
			for range 5 {
				warm()
			}
			require.Zero(t, testing.AllocsPerRun(20, warm), "%d threads", threads)
		}
	})
}

// golden maps kernel.Arithmetic.Numerics and the method to the hash of a stream after a constant
// text. The hashes of the portable arithmetic, "float32", are equal on all machines. If a hash
// changes, existing sessions no longer continue bit-identically.
var golden = map[string]map[string]string{
	"float32": {
		Static:     "a265a360709290152afdbe0c123b262182ce84048bca2274c7670365972c53b1",
		SparseMeta: "e5811487838ec275c85429eba25c355a9ce4aa6a1b32864a871bcf4d36dfe710",
		DynamicSGD: "336b5ae561df55fb205e4a9a00017556af20d8ee6827102d9c4921b404b660c6",
		DynamicRMS: "04ae0b7479a9900d13752c815d6c0f4a888ac4acb40c8221187a35b0aaa81654",
		Cache:      "61e4b6f72fdca7f9d2fb18b53c08a8cedbddab98846fab48b932e38b17a8596b",
	},
	"float32-fma": {
		Static:     "67593cf045fbe982b2011f244cdda92f3014604ce070710644f0b25faa05905c",
		SparseMeta: "4e6b348d8d309e54ee1dbf19e5154d7da3884cf91c5691bddc3d39483c21b641",
		DynamicSGD: "198b7940a7f55f5c474ea7e15fbdddfca0d8509d9a3a54c9d879dfcee25a9e2e",
		DynamicRMS: "94ab4f972d30892aeb22664d111820f9ddb369eee191b64976c3ec0e18db1c99",
		Cache:      "58afb4bfe1e328a3aef6721d74edbd01504f81a251a20aa08fae4c81fad8a355",
	},
}

func TestGoldenStateUnderOneAndManyThreads(t *testing.T) {
	m := testModel(t)
	each(t, Methods(), func(t *testing.T, method string) {
		var one string
		for _, threads := range []int{1, 2, 3, runtime.NumCPU() + 1} {
			w := testWorker(t, m, threads)
			s := New(m, settings(m, func(s *Settings) {
				s.Method, s.Baseline, s.Companion = method, true, false
			}))
			w.Feed(s, []byte(text), nil)
			if one == "" {
				one = s.Hash()
			}
			require.Equal(t, one, s.Hash(), "%d threads", threads)
		}
		numerics := kernel.Arithmetic{}.Numerics()
		require.Equal(t, golden[numerics][method], one, numerics)
	})
}

func TestSettingsThatDoNotFitTheModelAreNamed(t *testing.T) {
	m := testModel(t)
	require.NoError(t, Defaults(m).Validate(m))
	for says, change := range map[string]func(*Settings){
		"method is \"\"":       func(s *Settings) { s.Method = "" },
		"chunk is 0":           func(s *Settings) { s.Chunk = 0 },
		"chunk is 1025":        func(s *Settings) { s.Chunk = MaxChunk + 1 },
		"gammas: found 1":      func(s *Settings) { s.Adapt.Gammas = []float32{0.5} },
		"settings: p: found 2": func(s *Settings) { s.Adapt.P = 2 },
		"rate: found -1":       func(s *Settings) { s.Method, s.SGD.Rate = DynamicSGD, -1 },
		"decay: found 2":       func(s *Settings) { s.Method, s.SGD.Decay = DynamicSGD, 2 },
		"floor: found NaN": func(s *Settings) {
			s.Method, s.RMS.Floor = DynamicRMS,
				float32(math.NaN())
		},
		"size: found 0": func(s *Settings) { s.Method, s.Cache.Size = Cache, 0 },
		"theta: found +Inf": func(s *Settings) {
			s.Method, s.Cache.Theta = Cache,
				float32(math.Inf(1))
		},
		"lambda: found 1": func(s *Settings) { s.Method, s.Cache.Lambda = Cache, 1 },
	} {
		require.ErrorContains(t, settings(m, change).Validate(m), says)
	}
	static, err := model.New("static", m.LM, nil, testChunk, nil)
	require.NoError(t, err)
	require.Equal(t, Static, Defaults(static).Method)
	require.ErrorContains(t, settings(static, methodIs(SparseMeta)).Validate(static),
		"no meta-learners")
	require.ErrorContains(t, settings(static, methodIs(DynamicRMS)).Validate(static),
		"gradient.rms")
	for _, method := range []string{Static, DynamicSGD, Cache} {
		require.NoError(t, DefaultsFor(static, method).Validate(static))
	}
	other := settings(m, func(s *Settings) { s.Method, s.SGD.Rate, s.Cache.Size = Static, -1, 0 })
	require.NoError(t, other.Validate(m), "of other methods, without effect")
}

// MemoryBytes may omit some small tables that New allocates.
func TestMemoryBytesIsWhatAStreamTakes(t *testing.T) {
	m, err := model.Default()
	require.NoError(t, err)
	m, err = m.WithStatistics(make([]float32, len(m.LM.W)))
	require.NoError(t, err)
	for _, method := range Methods() {
		var before, after runtime.MemStats
		set := DefaultsFor(m, method)
		set.Baseline = true
		runtime.ReadMemStats(&before)
		s := New(m, set)
		runtime.ReadMemStats(&after)
		require.InEpsilon(t, after.TotalAlloc-before.TotalAlloc, s.MemoryBytes(), 0.05, method)
		require.Equal(t, s.MemoryBytes(), StateBytes(m, set), method)
		set.Baseline, set.CompanionStatic = false, false
		require.Equal(t, New(m, set).MemoryBytes(), StateBytes(m, set), method)
	}
}

// A worker must not confuse a frozen stream with its origin or with another frozen copy. The risk
// exists if their chunks have equal numbers of tokens.
func TestWorkerSeparatesFrozenStreamFromOrigin(t *testing.T) {
	m := upperModel(t)
	long := strings.Repeat(text, 2)
	const fed = 2*testChunk + 3
	w, other := testWorker(t, m, 1), testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		set := settings(m, methodIs(method))
		s := New(m, set)
		w.Feed(s, []byte(long[:fed]), nil)
		before := s.Hash()

		first, second, plain := s.Frozen(), s.Frozen(), s.Frozen()
		w.Feed(first, []byte("xyz"), nil)
		other.Feed(second, []byte("abc"), nil)
		other.Feed(plain, []byte("abc"), nil)
		want := append([]float32(nil), other.Score(plain, []byte("de")).NLL...)
		require.Equal(t, want, append([]float32(nil), w.Score(second, []byte("de")).NLL...),
			"two of one origin")

		w.Feed(first, []byte(long), nil)
		require.Equal(t, before, s.Hash(), "the origin stays where it is, also past the end of "+
			"the chunk")
		w.Feed(s.Frozen(), []byte("xyz"), nil)
		other.Feed(s, []byte(long[fed:fed+3]), nil)
		w.Feed(s, []byte(long[fed+3:]), nil)
		whole := New(m, set)
		w.Feed(whole, []byte(long), nil)
		require.Equal(t, whole.Hash(), s.Hash(), "the origin in a worker that has its copy's rows")
	})
}

func TestFrozenStreamKeepsWhatWasLearned(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	fed, next := text[:4*testChunk], text[4*testChunk:5*testChunk]
	static := New(m, settings(m, methodIs(Static)))
	w.Feed(static, []byte(fed), nil)
	each(t, adapting, func(t *testing.T, method string) {
		s := New(m, settings(m, methodIs(method)))
		w.Feed(s, []byte(fed), nil)
		want := scored(w, s.Frozen(), next)
		require.NotEqual(t, want, scored(w, static.Frozen(), next))
		require.Equal(t, want, scored(w, s, next), "the first chunk's scores do not see its update")
	})
}

func TestReadTellsTheDistributionsThatScoresComeFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 2)
	each(t, Methods(), func(t *testing.T, method string) {
		set := settings(m, methodIs(method))
		read, fed := New(m, set), New(m, set)
		var nll []float32
		w.Feed(fed, []byte(text), func(_ []byte, scores Scores) {
			nll = append(nll,
				scores.NLL...)
		})
		var ids []int32
		visit := func(to Token) {
			// TestGenerateDrawsFromTheDistributionThatScoreUses explains why the two numbers may
			// differ.
			require.InDelta(t, -nll[len(ids)], to.LogProbs[to.ID], 1e-5, "token %d", len(ids))
			var sum float64
			for _, l := range to.LogProbs {
				sum += math.Exp(float64(l))
			}
			require.InDelta(t, 1, sum, 1e-5, "token %d", len(ids))
			ids = append(ids, to.ID)
		}
		for at := 0; at < len(text); {
			at += w.Read(read, []byte(text[at:]), visit)
		}
		require.Equal(t, text, string(tokenizer.Bytes{}.Decode(nil, ids)))
		require.Equal(t, fed.Hash(), read.Hash())
	})
}
