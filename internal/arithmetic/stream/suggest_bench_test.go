package stream

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/weights"
)

// BenchmarkSuggest measures only the time of suggesting. Each operation types one character of a
// text, of which the stream has read 10 KB. The case "inline" requests one candidate, as an editor
// does.
func BenchmarkSuggest(b *testing.B) {
	all, err := os.ReadFile("../../../docs/guide.md")
	require.NoError(b, err)
	for _, name := range weights.EmbeddedNames() {
		f, err := weights.Embedded(name)
		require.NoError(b, err)
		m, err := model.FromFile(f)
		require.NoError(b, err)
		for what, o := range map[string]suggest.Options{
			"five":   {N: 5, Unit: suggest.Free},
			"inline": {N: 1, Unit: suggest.Free, Least: 0.6},
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				w := NewWorker(m, 1)
				defer w.Close()
				s, text := New(m, Defaults(m)), all[10<<10:]
				w.Feed(s, all[:10<<10], nil)
				var k Suggester
				typed, rows := 0, 0
				for b.Loop() {
					found, err := w.Suggest(b.Context(), s, &k, text[:typed], o)
					require.NoError(b, err)
					rows += found.Rows
					if typed++; typed >= s.Room() {
						b.StopTimer()
						w.Feed(s, text[:typed], nil)
						text, typed = text[typed:], 0
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
			})
		}
	}
}
