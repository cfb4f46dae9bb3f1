package stream

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// BenchmarkLoops reports the percentage of completion bytes that end a repeated sequence: 20 bytes
// that occurred before in the completion. The model first adapts to texts of the documentation or
// of the folder in LMSERVE_LOOPS.
func BenchmarkLoops(b *testing.B) {
	const completions, size, between, first = 100, 300, 1 << 10, 2 << 10
	texts := textsOf(b, cmp.Or(os.Getenv("LMSERVE_LOOPS"), "../../../docs"), 16<<10)
	for _, name := range weights.EmbeddedNames() {
		m, err := model.Place{Name: name}.Load()
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			w := NewWorker(m, 1)
			defer w.Close()
			for b.Loop() {
				loops, done := map[string]int{}, 0
				each := (completions + len(texts) - 1) / len(texts)
				for _, text := range texts {
					s, fed := New(m, Defaults(m)), 0
					for i := 0; i < each && first+i*between <= len(text); i++ {
						w.Feed(s, text[fed:first+i*between], nil)
						fed = first + i*between
						done++
						for _, dry := range []float64{0, txl.DryDefault} {
							for _, temperature := range []float64{0, .3, .7} {
								p := txl.Sampling{Temperature: temperature, Dry: dry,
									Seed: uint64(done)}
								written := completion(w, s, p, size)
								loops[fmt.Sprintf("%%loops/dry=%v,t=%v", dry,
									temperature)] += looped(written)
							}
						}
					}
				}
				for unit, n := range loops {
					b.ReportMetric(100*float64(n)/float64(done*size), unit)
				}
				b.ReportMetric(float64(done), "completions")
			}
		})
	}
}

// Without a penalty, greedy completions of the small model repeat themselves. The default
// repetition penalty (Dry) prevents this repetition.
func TestDryKeepsACompletionFromLooping(t *testing.T) {
	for _, m := range []*model.Model{testModel(t), wordModel(t)} {
		w := testWorker(t, m, 1)
		s := New(m, settings(m, nil))
		w.Feed(s, []byte(text), nil)
		p := txl.Sampling{}
		if m.OfWords() {
			p.TokenSize = 5
		}
		require.Greater(t, looped(completion(w, s, p, 300)), 150)
		p.Dry = txl.DryDefault
		require.LessOrEqual(t, looped(completion(w, s, p, 300)), 3)
	}
}

func completion(w *Worker, s *Stream, p txl.Sampling, size int) (written []byte) {
	w.Sample(s.Frozen(), txl.NewSampler(p, s.model.Tokenizer.Vocab()), func(t Token) bool {
		written = append(written, t.Text...)
		return len(written) < size
	})
	return written
}

// looped returns the number of bytes that end a sequence of 20 bytes seen before in the text.
func looped(text []byte) (n int) {
	const length = 20
	had := map[string]bool{}
	for end := length; end <= len(text); end++ {
		sequence := string(text[end-length : end])
		if had[sequence] {
			n++
		}
		had[sequence] = true
	}
	return n
}

func textsOf(t testing.TB, folder string, size int) (texts [][]byte) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, text[:min(len(text), size)])
		return err
	}))
	return texts
}
