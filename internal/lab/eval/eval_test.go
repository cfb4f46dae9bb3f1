package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// small returns a model with random weights. The parameter `out` scales the output of its
// meta-learners; with 0 the model has no meta-learners.
func small(t *testing.T, out float32) *model.Model {
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 8,
		Vocab: 256, SegLen: 8, MemLen: 8})
	require.NoError(t, err)
	lm.Init(1)
	var l *sparsemeta.Learner
	if out != 0 {
		branches, err := model.Branches(lm.Layout, nil)
		require.NoError(t, err)
		l = &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.PaperSettings()}
		l.Settings.Out = out
		l.Init(sparsemeta.InitSmall(), 1)
	}
	m, err := model.New("small", lm, l, 8, nil)
	require.NoError(t, err)
	m, err = m.WithStatistics(slices.Repeat([]float32{0.01}, len(lm.W)))
	require.NoError(t, err)
	return m
}

func write(t *testing.T, dir, name, text string) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func evaluate(t *testing.T, m *model.Model, dir string, o Options) Result {
	res, err := Directory(t.Context(), m, dir, o)
	require.NoError(t, err)
	return res
}

func untimed(r Result) Result {
	clear := func(p Part) {
		for _, s := range p.Scores {
			if s != nil {
				s.Seconds, s.MicrosPerByte, s.MicrosPerToken, s.Cost = 0, 0, 0, nil
			}
		}
	}
	for _, p := range append(append([]Part{r.Total}, r.Documents...), r.Domains...) {
		clear(p)
	}
	r.Threads = 0
	return r
}

// texts are the documents of the test corpus, in path order. They differ in length and domain.
var texts = []struct{ name, text string }{
	{"a/one", "some text that is longer than a chunk"},
	{"a/two/three", strings.Repeat("another text, another stream; ", 90)}, // 2700 bytes
	{"b/one", strings.Repeat("0123456789\n", 200)},                        // 2200 bytes
	{"top", "short"},
}

func corpus(t *testing.T) (dir string) {
	dir = t.TempDir()
	for _, doc := range texts {
		write(t, dir, doc.name, doc.text)
	}
	write(t, dir, "empty", "")
	write(t, dir, ".hidden", "not a document")
	write(t, dir, ".git/config", "nor this")
	return dir
}

func allMethods() (all []string) {
	for _, method := range stream.Methods() {
		all = append(all, method, method+WithCompanion)
	}
	return all
}

// feed feeds a text to a new stream, and returns the stream and the scores in nats. The method is
// named as in Options. The method `counts` uses no network, only a companion.
func feed(m *model.Model, method, text string) (s *stream.Stream, nll []float32) {
	name, companion := strings.CutSuffix(method, WithCompanion)
	if name == stream.Counts {
		m, companion = model.Counts(), true
	}
	set := stream.DefaultsFor(m, name)
	set.Companion, set.Seed = companion, 3
	w := stream.NewWorker(m, 1)
	defer w.Close()
	s = stream.New(m, set)
	w.Feed(s, []byte(text), func(_ []byte, scores stream.Scores) {
		nll = append(nll,
			scores.NLL...)
	})
	return s, nll
}

// The score of a document does not depend on other documents. The bits of a domain and the total
// bits are sums over their documents.
func TestDocumentsAreStreamsOfTheirOwn(t *testing.T) {
	m := small(t, 1)
	var last int64
	res := evaluate(t, m, corpus(t), Options{Methods: allMethods(), Seed: 3,
		Progress: func(done, total int64) {
			require.Greater(t, done, last)
			require.LessOrEqual(t, done, total)
			last = done
		}})
	require.Len(t, res.Documents, len(texts))
	sum, domains := make([]float64, len(res.Methods)), map[string]float64{}
	for i, doc := range texts {
		d := res.Documents[i]
		require.Equal(t, doc.name, d.Name)
		require.EqualValues(t, len(doc.text), d.Bytes)
		for k, method := range res.Methods {
			s, _ := feed(m, method, doc.text)
			score := d.Scores[k]
			require.Equal(t, s.Tally.Bits, score.Bits)
			require.InDelta(t, s.Tally.BitsPerByte(), score.BitsPerByte, 1e-12)
			require.InDelta(t, d.Scores[0].BitsPerByte-score.BitsPerByte, *score.Gain, 1e-12)
			require.Positive(t, score.Seconds)
			require.InEpsilon(t, score.Seconds/d.Scores[0].Seconds, *score.Cost, 1e-9)
			require.InEpsilon(t, 1e6*score.Seconds/float64(d.Bytes), score.MicrosPerByte, 1e-9)
			sum[k] += score.Bits
		}
		domains[d.Domain] += d.Scores[1].Bits
	}
	for k := range sum {
		require.InDelta(t, sum[k], res.Total.Scores[k].Bits, 1e-9)
		require.InDelta(t, sum[k]/float64(res.Total.Bytes), res.Total.Scores[k].BitsPerByte, 1e-12)
	}
	require.Equal(t, len(texts), res.Total.Documents)
	require.Equal(t, last, int64(len(res.Methods))*res.Total.Bytes)
	var names []string
	for _, d := range res.Domains {
		names = append(names, d.Name)
		require.InDelta(t, domains[d.Name], d.Scores[1].Bits, 1e-9)
	}
	require.Equal(t, []string{".", "a", "b"}, names, "first folders, . for none")
	require.Equal(t, 2, res.Domains[1].Documents)
}

// With ResetNever, scoring the documents gives the same scores as scoring their concatenation.
func TestNeverResetIsOneStream(t *testing.T) {
	m := small(t, 1)
	res := evaluate(t, m, corpus(t), Options{Methods: allMethods(), Reset: ResetNever, Seed: 3})
	var whole string
	for _, doc := range texts {
		whole += doc.text
	}
	for k, method := range res.Methods {
		s, nll := feed(m, method, whole)
		require.InDelta(t, s.Tally.Bits, res.Total.Scores[k].Bits, 1e-9)
		from := 0
		for i, doc := range texts {
			to := from + len(doc.text)
			require.InDelta(t, stream.Scores{NLL: nll[from:to]}.Bits(),
				res.Documents[i].Scores[k].Bits, 1e-9, doc.name)
			from = to
		}
		for _, p := range res.Windows {
			require.Equal(t, 1, p.Texts)
			require.InDelta(t, stream.Scores{NLL: nll[p.From:p.To]}.Bits()/float64(p.To-p.From),
				*p.BitsPerByte[k], 1e-9, "%d to %d", p.From, p.To)
		}
	}
	require.EqualValues(t, len(whole)/128*128, res.Windows[len(res.Windows)-1].To, "up to the end")
	apart := evaluate(t, m, corpus(t), Options{Methods: allMethods(), Seed: 3})
	require.Equal(t, apart.Documents[0].Scores[1].Bits, res.Documents[0].Scores[1].Bits,
		"the first begins the stream")
	require.NotEqual(t, apart.Documents[1].Scores[1].Bits, res.Documents[1].Scores[1].Bits)
}

// The curve's point for the first 2 KB equals the total score of the same documents cut to 2 KB.
func TestCurveAgreesWithTotal(t *testing.T) {
	m, dir := small(t, 1), t.TempDir()
	long := ""
	for i := range 400 {
		long += fmt.Sprintf("line %d of a text; ", i*i)
	}
	write(t, dir, "a", long[:2048])
	write(t, dir, "b", long[1000:5000])
	write(t, dir, "c", long[100:2200])
	all := evaluate(t, m, dir, Options{})
	cut := evaluate(t, m, dir, Options{MaxBytes: 2048})
	require.Len(t, all.Curve, 1, "no document has 8 KB")
	p := all.Curve[0]
	require.Equal(t, Point{From: 0, To: 2048, Texts: 3, BitsPerByte: p.BitsPerByte}, p)
	for k := range all.Methods {
		require.InDelta(t, cut.Total.Scores[k].BitsPerByte, *p.BitsPerByte[k], 1e-9)
	}
	require.Equal(t, cut.Curve, all.Curve)
	for _, p := range all.Windows {
		require.InDelta(t, 2, float64(p.To)/float64(p.From), 0.02, "an octave, to whole bytes")
	}
	last := all.Windows[len(all.Windows)-1]
	require.Equal(t, 1, last.Texts, "only one document is as long as %d", last.To)
	short := t.TempDir()
	write(t, short, "a", "short")
	require.Empty(t, evaluate(t, m, short, Options{}).Curve)
}

func TestOnlyTheFirstBytesWhenAsked(t *testing.T) {
	m, dir := small(t, 0), t.TempDir()
	write(t, dir, "a", "0123456789")
	res := evaluate(t, m, dir, Options{MaxBytes: 4})
	require.EqualValues(t, 4, res.Total.Bytes)
	require.Equal(t, []string{"static", "static+companion"}, res.Methods,
		"the default without meta-learners")
	require.Equal(t,
		[]string{"static", "sparse-meta", "static+companion", "sparse-meta+companion"},
		evaluate(t, small(t, 1), dir, Options{}).Methods, "and with")
}

func TestShuffleIsPermutationDrawnFromItsSeed(t *testing.T) {
	m, dir := small(t, 0), t.TempDir()
	for i := range 20 {
		write(t, dir, fmt.Sprintf("%02d", i), strings.Repeat("x", 10+i))
	}
	order := func(o Options) (names []string, res Result) {
		res = evaluate(t, m, dir, o)
		for _, d := range res.Documents {
			names = append(names, d.Name)
		}
		return names, res
	}
	one, two := uint64(1), uint64(2)
	sorted, unshuffled := order(Options{})
	dealt, res := order(Options{Shuffle: &one})
	require.ElementsMatch(t, sorted, dealt)
	require.NotEqual(t, sorted, dealt)
	require.Equal(t, &one, res.Shuffle, "the result says so")
	again, _ := order(Options{Shuffle: &one})
	require.Equal(t, dealt, again)
	other, _ := order(Options{Shuffle: &two})
	require.NotEqual(t, dealt, other)
	require.InDelta(t, unshuffled.Total.Scores[0].Bits, res.Total.Scores[0].Bits, 1e-9,
		"reset documents do not care")
}

func TestResultSurvivesJSON(t *testing.T) {
	seed := uint64(9)
	for _, m := range []*model.Model{small(t, 1), small(t, 3e38)} {
		res := evaluate(t, m, corpus(t), Options{Reset: ResetNever, Shuffle: &seed})
		text, err := json.Marshal(res)
		require.NoError(t, err)
		var back Result
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, res, back)
	}
}

// model.Counts() supports only the method `counts`, which is therefore its default.
func TestModelOfCountsIsEvaluatedByItsCounts(t *testing.T) {
	beside := evaluate(t, small(t, 0), corpus(t),
		Options{Methods: []string{stream.Static, stream.Counts}})
	alone := evaluate(t, model.Counts(), corpus(t), Options{})
	require.Equal(t, []string{stream.Counts}, alone.Methods)
	require.Equal(t, beside.Total.Scores[1].Bits, alone.Total.Scores[0].Bits)
	require.ErrorContains(t, Options{Methods: []string{stream.Static}}.Validate(model.Counts()),
		"no network")

	m := small(t, 1)
	asked := setting.Values{"gammas": make([]float32, len(m.Learner.Settings.Gammas))}
	beside = evaluate(t, m, corpus(t), Options{
		Methods: []string{stream.SparseMeta, stream.Counts}, Settings: asked,
	})
	require.Equal(t, alone.Total.Scores[0].Bits, beside.Total.Scores[1].Bits, "it has no gammas")
}

func TestThreadsChangeNoScore(t *testing.T) {
	m, dir := small(t, 1), corpus(t)
	for _, reset := range []string{ResetDocument, ResetNever} {
		one := evaluate(t, m, dir, Options{Methods: stream.Methods(), Reset: reset, Threads: 1})
		three := evaluate(t, m, dir, Options{Methods: stream.Methods(), Reset: reset, Threads: 3})
		require.Equal(t, untimed(one), untimed(three))
	}
}

// A method that diverges in a document has no score there, in the document's domain and in the
// total. Other methods keep their scores.
func TestDivergenceIsReportedAndStaysWhereItIs(t *testing.T) {
	dir := corpus(t)
	good, bad := small(t, 1), small(t, 3e38)
	var last int64
	o := Options{
		Methods:  []string{stream.Static, stream.SparseMeta + WithCompanion},
		Progress: func(done, total int64) { require.Less(t, last, done); last = done },
	}
	res := evaluate(t, bad, dir, o)
	static := evaluate(t, good, dir, Options{Methods: []string{stream.Static}})
	for i, d := range res.Documents {
		require.Equal(t, static.Documents[i].Scores[0].Bits, d.Scores[0].Bits)
		if d.Bytes < 8 { // no chunk becomes full, so the weights never change
			require.NotNil(t, d.Scores[1])
		} else {
			require.Nil(t, d.Scores[1], d.Name)
		}
	}
	require.Len(t, res.Divergence, 3)
	d := res.Divergence[0]
	require.Equal(t, stream.SparseMeta+WithCompanion, d.Method)
	require.Equal(t, "a/one", d.Document)
	require.Contains(t, d.Why, "a byte cost the network more than 128 bits")
	require.Less(t, d.Offset, int64(len(texts[0].text)))
	require.NotNil(t, res.Domains[0].Scores[1], "the domain of the short document")
	require.Nil(t, res.Domains[1].Scores[1])
	require.Nil(t, res.Total.Scores[1])
	require.NotNil(t, res.Curve[0].BitsPerByte[0])
	require.Nil(t, res.Curve[0].BitsPerByte[1])
	require.Equal(t, 2*res.Total.Bytes, last, "bytes left out count as done")

	never := evaluate(t, bad, dir, Options{Methods: o.Methods, Reset: ResetNever})
	require.Len(t, never.Divergence, 1, "once, where it happened")
	for _, d := range never.Documents {
		require.Nil(t, d.Scores[1], "%s: also what comes after", d.Name)
	}

	first := evaluate(t, bad, dir, Options{Methods: []string{stream.SparseMeta, stream.Static}})
	require.Nil(t, first.Total.Scores[1].Gain, "nothing to gain over")
	require.Nil(t, first.Total.Scores[1].Cost)
}

func TestChartHasOneLinePerMethod(t *testing.T) {
	m, dir := small(t, 1), corpus(t)
	for _, reset := range []string{ResetDocument, ResetNever} {
		res := evaluate(t, m, dir, Options{Reset: reset})
		c := res.Chart()
		require.Contains(t, c.Title, m.ID())
		require.Equal(t, reset == ResetDocument, c.X.Log)
		require.NotEmpty(t, c.X.Ticks)
		for k, line := range c.Lines {
			require.Equal(t, res.Methods[k], line.Name)
			require.Len(t, line.Points, len(res.Windows))
			for i, p := range line.Points {
				w := res.Windows[i]
				require.Equal(t, *w.BitsPerByte[k], p.Y)
				require.LessOrEqual(t, p.X, float64(w.To))
				require.GreaterOrEqual(t, p.X, float64(w.From))
			}
		}
		_, err := c.SVG()
		require.NoError(t, err)
	}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	m, dir := small(t, 0), t.TempDir()
	directory := func(dir string, o Options) error {
		_, err := Directory(t.Context(), m, dir, o)
		return err
	}
	require.ErrorContains(t, directory(dir, Options{}), dir+": no documents")
	require.ErrorIs(t, directory(filepath.Join(dir, "missing"), Options{}), os.ErrNotExist)
	write(t, dir, "a", "text")
	require.ErrorContains(t, directory(filepath.Join(dir, "a"), Options{}), filepath.Join(dir, "a")+
		" is a file, expected a directory")
	for says, o := range map[string]Options{
		"no meta-learners":                       {Methods: []string{stream.SparseMeta}},
		`method is "magic"`:                      {Methods: []string{"magic"}},
		"methods: static is given twice":         {Methods: []string{stream.Static, stream.Static}},
		`reset is "daily", expected document or`: {Reset: "daily"},
		"max-bytes is -1, expected 0 (no limit)": {MaxBytes: -1},
	} {
		require.ErrorContains(t, directory(dir, o), says)
		require.ErrorContains(t, o.Validate(m), says)
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")))
	require.ErrorContains(t, directory(dir, Options{}), filepath.Join(dir, "link"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Directory(ctx, m, corpus(t), Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestInterruptedEvaluationHasWhatIsDone(t *testing.T) {
	m, dir, alone := small(t, 0), t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, dir, name, strings.Repeat(name+" text ", 100))
	}
	write(t, alone, "a", strings.Repeat("a text ", 100))
	ctx, cancel := context.WithCancel(t.Context())
	res, err := Directory(ctx, m, dir, Options{Methods: []string{"static"},
		Progress: func(done, total int64) {
			if done > total/2 {
				cancel()
			}
		}})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, res.Interrupted)
	want := evaluate(t, m, alone, Options{Methods: []string{"static"}})
	require.Equal(t, untimed(want).Documents, untimed(res).Documents)
	require.Equal(t, untimed(want).Total, untimed(res).Total)

	require.Equal(t, "b", res.Partial.Name)

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	res, err = Directory(ctx, m, dir, Options{Methods: []string{"static"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, res)
}

func TestEvaluationInterruptedInItsFirstDocument(t *testing.T) {
	m, dir := small(t, 0), t.TempDir()
	write(t, dir, "a", strings.Repeat("a text ", 100))
	methods := []string{"static", "cache"}
	whole := evaluate(t, m, dir, Options{Methods: methods}).Documents[0]
	for _, reset := range []string{ResetDocument, ResetNever} {
		ctx, cancel := context.WithCancel(t.Context())
		end := func(done, _ int64) {
			if done > whole.Bytes+whole.Bytes/3 {
				cancel()
			}
		}
		o := Options{Methods: methods, Reset: reset, Progress: end}
		res, err := Directory(ctx, m, dir, o)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, res.Interrupted)
		require.Empty(t, res.Documents)
		require.Equal(t, "a", res.Partial.Name)
		require.Equal(t, whole.Bytes, res.Partial.Bytes)
		first, second := res.Partial.Scores[0], res.Partial.Scores[1]
		require.Equal(t, PartialScore{
			"static", whole.Bytes, whole.Tokens, whole.Scores[0].Bits, whole.Scores[0].BitsPerByte,
			whole.Scores[0].Perplexity,
		}, first)
		require.Equal(t, "cache", second.Method)
		require.Greater(t, second.Bytes, whole.Bytes/4)
		require.Less(t, second.Bytes, whole.Bytes)
		require.Equal(t, second.Bits/float64(second.Bytes), second.BitsPerByte)
		_, err = json.Marshal(res)
		require.NoError(t, err)
	}
}
